// Generated texts and task scores between the steps of a run do not depend on the run's layout.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include <mpt/eval/icl_score.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/train/evaluation/task_evaluation.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

#include "mpt/eval/icl_support.hpp"
#include "mpt/train/tiny_run.hpp"

namespace run_decoder_test {
namespace {

using namespace tiny_run;
namespace eval = mpt::eval;

eval::task_config task_of(std::string const& name, eval::task_kind kind) {
  eval::task_config out;
  out.label = name;
  out.file = icl_test::folder() / (name + ".jsonl");
  out.kind = kind;
  out.shots = {1};
  out.max_seq_len = 48;
  return out;
}

/// The configuration of a run with the golden tokenizer, prompts, and a task of each kind.
train_config reading_config(run_files const& files, bool learned_positions) {
  auto config = divisible_config(files, 2);
  config.model.vocab_size = 421;  // 420 tokens; not divisible by two
  config.model.max_seq_len = 64;
  config.model.learned_pos_emb = learned_positions;
  config.model.attn.alibi = !learned_positions;
  config.data.tokenizer.name = icl_test::folder() / "tokenizer_a";
  config.evaluation.eval_interval = {1, mpt::time_unit::batch};
  config.callbacks.generate = mpt::generate_config{.prompts = {"a lantern", "the bell and"},
                                                   .interval = {1, mpt::time_unit::batch},
                                                   .max_new_tokens = 5,
                                                   .temperature = 1};
  config.evaluation.icl.tasks = {task_of("language", eval::task_kind::language_modeling),
                                 task_of("choice", eval::task_kind::multiple_choice),
                                 task_of("schema", eval::task_kind::schema),
                                 task_of("answers", eval::task_kind::generation)};
  config.evaluation.icl.gauntlet.emplace();
  config.evaluation.icl.gauntlet->categories = {
      {"guessing", {{"choice", 1, 0.25}, {"schema", 1, 0.5}}}};
  config.evaluation.icl.gauntlet->averages = {{"all", {"guessing"}}};
  return config;
}

/// The metrics of prompts and tasks, by "batch name".
std::map<std::string, nlohmann::json> text_records(fs::path const& file) {
  std::map<std::string, nlohmann::json> out;
  for (auto const& record : records(file))
    for (auto const& [name, value] : record.items())
      if (name.starts_with("generations/") || name.find("-shot/") != std::string::npos ||
          name.starts_with("icl/"))
        out[std::to_string(record.at("time/batch").get<int>()) + " " + name] = value;
  return out;
}

std::vector<grid> const layouts{
    {.data = 2},
    {.zero_stage = 3, .data = 3},
    {.zero_stage = 2, .data = 2, .parallelism = {.tensor = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
    {.zero_stage = 1,
     .data = 1,
     .parallelism = {.pipeline = 2, .schedule = "interleaved", .stages_per_rank = 2}},
};

TEST_CASE("run decoder: every layout writes the texts and has the scores of one rank") {
  run_files const files;
  for (bool const learned : {false, true}) {
    CAPTURE(learned);
    auto config = reading_config(files, learned);
    config.output.metrics_file = files.folder / "one.jsonl";
    static_cast<void>(train<float>(config));
    auto const expected = text_records(config.output.metrics_file);
    REQUIRE(expected.size() == 2 * (2 + 4 + 2));
    for (auto const& layout : layouts) {
      if (learned && layout.parallelism.ranks_of_model() == 1) continue;
      CAPTURE(layout.zero_stage);
      CAPTURE(layout.parallelism.tensor);
      CAPTURE(layout.parallelism.pipeline);
      config.output.metrics_file = files.folder / "other.jsonl";
      fs::remove(config.output.metrics_file);
      static_cast<void>(train<float>(with_layout(config, layout), layout.ranks()));
      CHECK(text_records(config.output.metrics_file) == expected);
    }
  }
}

TEST_CASE("run decoder: a run's scores are those of its checkpoint's weights") {
  run_files const files;
  auto config = reading_config(files, false);
  config.callbacks.generate.reset();
  config.output.metrics_file = files.folder / "metrics.jsonl";
  config.checkpoint.save_folder = files.folder / "saved";
  auto const layout = layouts[1];
  fs::path const saved = train<float>(with_layout(config, layout), layout.ranks()).checkpoint;

  mpt::model_source const source(saved);
  parallel::host::device device;
  parallel::host::stream stream;
  mpt::model<float> net(source.config());
  parallel::train::weights<float> const weights(net, device);
  source.load(weights, device);
  mpt::model_decoder<float, parallel::host::device> decoder(net, device, stream, {.tokens = 48});
  eval::task_model model(decoder);
  auto const words = mpt::tokenizer::load(config.data.tokenizer.name);
  auto const found = text_records(config.output.metrics_file);
  for (auto const& task : eval::load_tasks(config.evaluation.icl.tasks)) {
    auto const result = eval::run_task(task, 1, words, model);
    CHECK(found
              .at("2 metrics/" + task.config.label + "/1-shot/" +
                  std::string(eval::metric_of(task.config.kind)))
              .get<double>() == result.accuracy());
  }
}

}  // namespace
}  // namespace run_decoder_test
