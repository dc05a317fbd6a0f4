// Tests every key of an evaluation's configuration: set to another value than its default, it
// changes the evaluation, is refused, or is listed as having no effect, with the reason. The keys
// below icl_tasks, eval_gauntlet, tokenizer and an mpt_causal_lm's model are read as in a training
// configuration: tests/mpt/config/train_keys.txt has their rows.
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

std::vector<row> const& rows() {
  static auto const table = test::read_key_table("mpt/eval/eval_keys.txt");
  return table;
}

using reading = test::key_reading<mpt::eval::eval_config>;

/// The small files that some settings name.
struct small_files {
  data_test::scratch_folder folder;

  small_files() {
    std::filesystem::create_directories(folder / "other");
    mpt::lora_config adapter;
    adapter.targets = {"Wqkv"};
    data_test::put_file(folder / "adapter/adapter_config.json",
                        mpt::to_peft_json(adapter, {}).dump());
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
      out.config = mpt::eval::read_eval_config(mpt::make_document(yaml, "e.yaml", changes),
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
