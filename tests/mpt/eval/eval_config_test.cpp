#include <doctest/doctest.h>

#include <mpt/eval/eval_config.hpp>
#include <mpt/yaml/document.hpp>

#include "mpt/data/scratch.hpp"
#include "support/data.hpp"
#include "support/text_cases.hpp"

namespace eval_config_test {

using namespace mpt::eval;

struct config_files {
  data_test::scratch_folder folder;

  config_files() {
    std::filesystem::create_directories(folder / "model");
    data_test::put_file(folder / "t.jsonl", "{}");
    data_test::put_file(folder / "tasks.yaml", "icl_tasks:\n" + task);
  }
  eval_config read(std::string const& yaml) {
    return read_eval_config(mpt::make_document(yaml, "e.yaml"), folder / "e.yaml");
  }
  std::string error(std::string const& yaml) {
    return data_test::message_of([&] { static_cast<void>(read(yaml)); });
  }
  [[nodiscard]] std::string model() const { return (folder / "model").string(); }

  std::string const task =
      "- {label: t, dataset_uri: t.jsonl, num_fewshot: [0], icl_task_type: schema}\n";
  std::string const head = "max_seq_len: 16\ndevice_eval_batch_size: 4\n";
  std::string const tasks = "icl_tasks: tasks.yaml\n";
};

TEST_CASE("evaluation configuration: several models, tasks from a file and a gauntlet are read") {
  config_files files;
  auto const config = files.read(
      files.head +
      "precision: fp32\nranks: 4\nparallelism: {tensor: 2}\nicl_subset_num_batches: 3\n" +
      "icl_tasks_str: tasks.yaml\nmodels:\n- model_name: a\n  model: "
      "{name: mpt_causal_lm, d_model: 32, n_heads: 4}\n  load_path: " +
      files.model() + "\n  tokenizer: {name: words}\n" +
      "- model: {name: hf_causal_lm, pretrained: true, "
      "pretrained_model_name_or_path: " +
      files.model() + "}\n" +
      "eval_gauntlet: {categories: [{name: c, benchmarks: [{name: t, "
      "num_fewshot: 0, random_baseline: 0.5}]}]}\n");
  REQUIRE(config.models.size() == 2);
  CHECK(config.models[0].name == "a");
  CHECK(config.models[0].tokenizer == "words");
  REQUIRE(config.models[0].stated.has_value());
  CHECK(config.models[0].stated->d_model == 32);
  CHECK(config.models[1].path == files.model());
  CHECK_FALSE(config.models[1].stated.has_value());
  CHECK(config.tasks.at(0).max_seq_len == 16);
  CHECK(config.tasks.at(0).batch_size == 4);
  CHECK(config.gauntlet.has_value());
  CHECK(config.precision == mpt::precision_kind::fp32);
  CHECK(config.ranks == 4);
  CHECK(config.tensor == 2);
  CHECK(config.subset_batches == 3);
}

TEST_CASE(
    "evaluation configuration: a model's default name is its folder and its adapter's folder") {
  CHECK(mpt::eval::model_name("models/a", "") == "models/a");
  CHECK(mpt::eval::model_name("models/a", "tuned") == "models/a + tuned");
}

TEST_CASE(
    "evaluation configuration: one model at the top level, as in a training file, is accepted") {
  config_files files;
  auto const config =
      files.read(files.head + files.tasks + "model_name: one\nmodel: {name: mpt_causal_lm}\n" +
                 "tokenizer: {name: w}\nload_path: " + files.model() + "\nprecision: amp_fp16\n");
  CHECK(config.models.at(0).name == "one");
  CHECK(config.precision == mpt::precision_kind::fp32);
  REQUIRE(config.report.notes.size() == 1);
}

TEST_CASE(
    "evaluation configuration: the override model_name_or_path sets the variable of that name") {
  config_files files;
  data_test::put_file(files.folder / "e.yaml",
                      files.head + files.tasks +
                          "variables: {model_name_or_path: nowhere}\nmodels:\n- model: {name: "
                          "hf_causal_lm, pretrained_model_name_or_path: "
                          "'${variables.model_name_or_path}'}\n");
  std::vector<std::string> const overrides{"model_name_or_path=" + files.model()};
  CHECK(load_eval_config(files.folder / "e.yaml", overrides).models.at(0).path == files.model());
}

TEST_CASE("evaluation configuration: errors name the location of a missing or wrong value") {
  config_files files;
  for (auto const& [text, message] : test::text_cases(
           "mpt/eval/refused.txt", "configurations of an evaluation of the folder MODEL"))
    CHECK(files.error(mpt::fill_in(text, "MODEL", files.model())) == message);
  CHECK(
      files.error(files.tasks)
          .ends_with(": icl_tasks: there is no model to run the tasks on; name one on the command "
                     "line (evaluate MODEL --icl_tasks e.yaml) or add model or models to the "
                     "file"));
}

TEST_CASE("evaluation configuration: a model that differs from the stated one is refused") {
  mpt::model_config stated, found;
  stated.d_model = 32;
  found.d_model = 64;
  CHECK(data_test::message_of([&] { check_stated(stated, found, "m"); }) ==
        "m: the configuration says d_model 32, but the model has 64");
  stated.d_model = 64;
  CHECK_NOTHROW(check_stated(stated, found, "m"));
  stated.logit_scale = 0.5;
  CHECK(data_test::message_of([&] { check_stated(stated, found, "m"); }) ==
        "m: the configuration says logit_scale 0.5, but the model has null");
}

TEST_CASE(
    "evaluation configuration: config_overrides that change no result are accepted, others not") {
  auto const is_harmless = [](std::string const& yaml) {
    return detail::changes_no_result(mpt::parse_yaml(yaml, "e.yaml"));
  };
  CHECK(is_harmless("{}"));
  CHECK(is_harmless("{max_seq_len: 128, attn_config: {attn_impl: torch}}"));
  CHECK_FALSE(is_harmless("{attn_config: {attn_impl: torch, alibi: true}}"));
  CHECK_FALSE(is_harmless("{n_heads: 4}"));
  CHECK_FALSE(is_harmless("[n_heads]"));
}

TEST_CASE("evaluation configuration: LLM Foundry's own files are read") {
  auto const data = test::data_folder();
  if (data.empty() || !std::filesystem::exists(data / "eval/yamls")) return;
  config_files files;
  auto const yamls = data / "eval/yamls";
  std::vector<std::string> overrides{"models.0.load_path=" + files.model()};
  auto const mpt = load_eval_config(yamls / "mpt_eval.yaml", overrides);
  CHECK(mpt.tasks.at(0).has_categories);
  CHECK(mpt.max_seq_len == 1024);
  overrides = {"model_name_or_path=" + files.model(), "icl_tasks=eval/yamls/copa.yaml"};
  auto const hf = load_eval_config(yamls / "hf_eval.yaml", overrides);
  CHECK(hf.gauntlet->categories.size() == 5);
  CHECK(hf.tasks.at(0).label == "copa");
}

}  // namespace eval_config_test
