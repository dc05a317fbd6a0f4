// Tests every key of an evaluation's configuration: set to another value than its default, it
// changes the evaluation, is refused, or is listed as having no effect, with the reason. The keys
// below icl_tasks, eval_gauntlet, tokenizer and an mpt_causal_lm's model are read as in a training
// configuration: tests/mpt/config/read_train_keys_test.cpp has their rows.
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/lora.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/eval/eval_config.hpp>
#include <mpt/yaml/document.hpp>

#include "mpt/config/key_table.hpp"
#include "mpt/data/scratch.hpp"

namespace eval_config_keys_test {

using row = test::key_row;
using test::overrides;
using enum test::key_effect;

overrides const hub{
    "models=[{model: {name: hf_causal_lm, pretrained_model_name_or_path: FOLDER}}]"};
overrides const single{"models=", "model={name: mpt_causal_lm}", "load_path=FOLDER"};

std::vector<row> rows() {
  std::vector<row> out{
      {changes, "max_seq_len=64"},
      {changes, "device_eval_batch_size=5"},
      {changes, "precision=fp32"},
      {changes, "models.0.model_name=b"},
      {changes, "models.0.load_path=FOLDER/other"},
      {refused, "models.0.load_path=FOLDER/nowhere", "there is no folder"},
      {changes, "models.0.tokenizer={name: t}"},
      {changes, "models.0.model={name: mpt_causal_lm, d_model: 64}"},
      {refused, "models.0.model.name=other", "or 'hf_causal_lm'"},
      {refused, "model={name: mpt_causal_lm}", "not both"},
      {changes, "model_name=b", "", single},
      {changes, "load_path=FOLDER/other", "", single},
      {changes, "tokenizer={name: t}", "", single},
      {changes, "model={name: mpt_causal_lm, d_model: 64}", "", single},
      {changes, "models.0.model.pretrained_model_name_or_path=FOLDER/other", "", hub},
      {changes, "models.0.model.pretrained_lora_id_or_path=FOLDER/adapter", "", hub},
      {refused, "models.0.model.pretrained_lora_id_or_path=nowhere", "is no folder", hub},
      {refused, "models.0.model.pretrained=false", "use true", hub},
      {refused, "models.0.model.load_in_8bit=true", "leave it out", hub},
      {refused, "models.0.model.peft_config={r: 4}", "new adapters change nothing", hub},
      {listed, "models.0.model.config_overrides.max_seq_len=64", "by one program", hub},
      {refused, "models.0.model.config_overrides.n_heads=2", "own model is scored", hub},
      {listed, "models.0.model.init_device=meta", "by one program", hub},
      {listed, "models.0.model.use_auth_token=true", "by one program", hub},
      {listed, "models.0.model.trust_remote_code=true", "by one program", hub},
      {listed, "models.0.model.attn_implementation=eager", "by one program", hub},
      {listed, "models.0.model.use_flash_attention_2=true", "by one program", hub},
      {changes, "icl_tasks=FOLDER/tasks.yaml"},
      {changes,
       "icl_tasks_str=FOLDER/tasks.yaml",
       "",
       {"icl_tasks=", "icl_tasks_str=FOLDER/more_tasks.yaml"}},
      {changes, "icl_subset_num_batches=3"},
      {changes,
       "eval_gauntlet={categories: [{name: c, benchmarks: [{name: a, num_fewshot: 0, "
       "random_baseline: 0.1}]}]}"},
      {changes, "eval_gauntlet_str=FOLDER/gauntlet.yaml"},
      {refused, "eval_loader={name: text}", "evaluate MODEL --data SET"},
      {refused, "eval_loaders=[{name: text}]", "evaluate MODEL --data SET"},
      {listed, "eval_subset_num_batches=3", "belongs to eval_loader"},
      {listed, "fsdp_config={sharding_strategy: FULL_SHARD}", "holds the whole model"},
      {refused, "loggers={wandb: {}}", "write results"},
      {refused, "callbacks={a: {}}", "write results"},
      {refused, "variables.a=1", "nothing refers to it"},
      {refused, "train_loader={name: text}", "belongs to a training configuration"},
      {changes, "dist_timeout=5"},
      {changes, "ranks=2"},
      {changes, "threads=2"},
      {changes, "tp_config.tensor_parallel_degree=2"},
      {refused, "tp_config.strategy=rows", "there is ffn"},
      {changes, "parallelism.tensor=2"},
      {changes, "device=cpu"}};
  for (std::string const key : {"seed", "run_name", "metadata", "python_log_level", "log_config",
                                "console_log_interval", "code_paths"})
    out.push_back({listed, key + "=1", "nothing here depends on it"});
  return out;
}

using reading = test::key_reading<mpt::icl::eval_config>;

/// The small files that some settings name.
struct small_files {
  data_test::scratch_folder folder;

  small_files() {
    std::filesystem::create_directories(folder / "other");
    mpt::lora_config adapter;
    adapter.targets = {"Wqkv"};
    data_test::put_file(folder / "adapter/adapter_config.json",
                        mpt::to_peft_json(adapter, "").dump());
    data_test::put_file(folder / "t.jsonl", "{}");
    for (std::string const name : {"tasks", "more_tasks"})
      data_test::put_file(folder / (name + ".yaml"),
                          "icl_tasks: [{label: " + name +
                              ", dataset_uri: t.jsonl, icl_task_type: schema, num_fewshot: [0]}]");
    data_test::put_file(folder / "gauntlet.yaml",
                        "eval_gauntlet: {categories: [{name: c, benchmarks: [{name: a, "
                        "num_fewshot: 0, random_baseline: 0.1}]}]}");
  }

  [[nodiscard]] std::string fill_folder(std::string const& text) const {
    return mpt::fill_in(text, "FOLDER", folder.path().string());
  }

  [[nodiscard]] reading read(overrides changes) const {
    for (auto& text : changes) text = fill_folder(text);
    auto const yaml = fill_folder(
        "max_seq_len: 128\n"
        "device_eval_batch_size: 8\n"
        "models: [{model_name: a, model: {name: mpt_causal_lm}, load_path: FOLDER}]\n"
        "icl_tasks: [{label: a, dataset_uri: FOLDER/t.jsonl, icl_task_type: schema, "
        "num_fewshot: [0]}]\n");
    reading out;
    try {
      out.config = mpt::icl::read_eval_config(mpt::make_document(yaml, "e.yaml", changes),
                                              folder / "e.yaml");
    } catch (parallel::error const& error) {
      out.problem = error.what();
    }
    return out;
  }
};

/// The name without item numbers; "" for a key that a training configuration also has.
std::string own_key(std::string name) {
  for (auto digit = name.find(".0"); digit != std::string::npos; digit = name.find(".0"))
    name.erase(digit, 2);
  for (std::string_view const shared :
       {"icl_tasks.", "eval_gauntlet.", "tokenizer.", "models.tokenizer.", "mirrors."})
    if (name.starts_with(shared)) return "";
  return name;
}

TEST_CASE("evaluation configuration: every key changes the evaluation, is refused, or is listed") {
  small_files const files;
  std::set<std::string> known, tried;
  // keys of an mpt_causal_lm's model, read as in a training configuration
  std::set<std::string> model_keys;
  auto const learn = [](std::set<std::string>& names, mpt::config_report const& report) {
    for (auto const& key : report.known)
      if (auto const name = own_key(key.name); !name.empty()) names.insert(name);
  };
  std::map<test::key_effect, int> counts;
  for (row const& tried_row : rows()) {
    CAPTURE(tried_row.setting);
    auto const base_reading = files.read(tried_row.context);
    auto changed = tried_row.context;
    changed.push_back(tried_row.setting);
    auto const changed_reading = files.read(changed);
    bool const is_hub = tried_row.context == hub;
    learn(is_hub ? known : model_keys, changed_reading.config.report);
    auto const fault = test::fault_of(tried_row, base_reading, changed_reading);
    CHECK_MESSAGE(fault.empty(), tried_row.setting, " ", fault);
    tried.insert(own_key(tried_row.key()));
    ++counts[tried_row.expected];
  }
  for (auto const& key : model_keys)
    if (!key.starts_with("model.") && !key.starts_with("models.model.")) known.insert(key);
  CHECK(known.size() > 40);
  for (auto const& key : known)
    CHECK_MESSAGE(test::is_tried(tried, key), key, " has no row in this table");
  MESSAGE(known.size(), " keys known; rows: ", counts[changes], " change the evaluation, ",
          counts[refused], " are refused, ", counts[listed], " listed");
}

}  // namespace eval_config_keys_test
