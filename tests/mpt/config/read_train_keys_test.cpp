// Tests of every key that a training configuration may have: set to another value than its default,
// it changes the run, is refused, or is said to have no effect, with the reason. The reader records
// each key that it asks for; one that has no row here fails.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>
#include <support/known_keys.hpp>

#include "mpt/config/key_table.hpp"

namespace read_train_keys_test {

using row = test::key_row;
using test::overrides;
using enum test::key_effect;

constexpr char const* base = R"(
max_seq_len: 128
model: {name: mpt_causal_lm, d_model: 64, n_heads: 4, n_layers: 2, max_seq_len: 128,
  vocab_size: 512}
tokenizer: {name: gpt2}
train_loader: {name: text, dataset: {local: ./data}}
optimizer: {name: decoupled_adamw, lr: 6.0e-4}
scheduler: {name: cosine_with_warmup, t_warmup: 10ba}
max_duration: 100ba
global_train_batch_size: 8
)";

overrides const hub{"HUB"};  ///< instead of the model above one of a Hugging Face folder

std::vector<row> const& all_rows() {
  static auto const rows = test::read_key_table("mpt/config/train_keys.txt");
  return rows;
}

/// The small files that some settings name.
struct test_files {
  test_files() {
    auto const write = [&](char const* name, std::string const& text) {
      std::filesystem::create_directories((folder / name).parent_path());
      parallel::replace_text_file(folder / name, text);
    };
    mpt::model_config model;
    model.d_model = 64;
    model.n_heads = 4;
    model.n_layers = 2;
    model.max_seq_len = 128;
    write("config.json", mpt::to_hf_json(mpt::hub_form(model), "bfloat16").dump());
    mpt::lora_config adapter;
    adapter.targets = {"Wqkv"};
    write("adapter/adapter_config.json", mpt::to_peft_json(adapter, {}).dump());
    write("rows.jsonl", "{}\n");
    write("more.jsonl", "{}\n");
    write(
        "tasks.yaml",
        "icl_tasks: [{label: a, dataset_uri: rows.jsonl, icl_task_type: schema, num_fewshot: 0}]");
    write("gauntlet.yaml",
          "eval_gauntlet: {categories: [{name: c, benchmarks: [{name: a, num_fewshot: 0, "
          "random_baseline: 0.1}]}]}");
  }
  [[nodiscard]] std::string with_folder(std::string text) const {
    return mpt::fill_in(std::move(text), "FOLDER", folder.path().string());
  }
  test::temporary_folder folder;
};

/// The name with "*" in place of the numbers and names that users choose.
std::string const& canonical(std::string const& name) {
  static std::map<std::string, std::string> found;  // as every reading has the same names
  auto const [entry, is_new] = found.try_emplace(name);
  if (!is_new) return entry->second;
  static std::regex const number(R"(\.[0-9]+(?=\.|$))");
  static std::regex const chosen(
      R"((dataset\.streams|block_overrides\.overrides|averages|mirrors)\.[^.]+)");
  static std::regex const nested(R"((\.order\.\*)+)");
  auto text = std::regex_replace(std::regex_replace(name, number, ".*"), chosen, "$1.*");
  text = std::regex_replace(text, nested, ".order.*");
  for (std::string_view const loader : {"eval_loader.*.", "eval_loader."})
    if (text.starts_with(loader)) text = "train_loader." + text.substr(loader.size());
  constexpr std::string_view with_overrides = "model.config_overrides.";
  if (text.starts_with(with_overrides)) text = "model." + text.substr(with_overrides.size());
  return entry->second = std::move(text);
}

using reading = test::key_reading<mpt::train_config>;

reading read(test_files const& files, overrides changes) {
  std::string yaml = base;
  if (std::erase(changes, hub[0]) > 0) {
    auto const begin = yaml.find("model:"), end = yaml.find("tokenizer:");
    yaml.replace(
        begin, end - begin,
        files.with_folder("model: {name: hf_causal_lm, pretrained_model_name_or_path: FOLDER}\n"));
  }
  for (auto& text : changes) text = files.with_folder(text);
  reading out;
  try {
    out.config = mpt::read_train_config(mpt::make_document(yaml, "t.yaml", changes));
  } catch (parallel::error const& error) {
    out.problem = error.what();
  }
  return out;
}

TEST_CASE("known keys: every key changes the run, is refused, or is listed as without effect") {
  test_files const files;
  std::set<std::string> known;  // keys that the reader requested in any of these readings
  auto const add_known = [&](mpt::config_report const& report) {
    for (auto const& key : report.known) known.insert(canonical(key.name));
  };
  for (auto const& key : test::known_keys()) known.insert(canonical(key.name));
  std::set<std::string> tried;
  std::map<test::key_effect, int> counts;
  std::map<overrides, reading> baselines;  // by the context, which many rows share
  auto const& rows = all_rows();
  for (row const& one : rows) {
    CAPTURE(one.setting);
    auto [before, is_new] = baselines.try_emplace(one.context);
    if (is_new) before->second = read(files, one.context);
    auto const& baseline = before->second;
    auto settings = one.context;
    settings.push_back(one.setting);
    auto const changed = read(files, settings);
    if (is_new) add_known(baseline.config.output.report);
    add_known(changed.config.output.report);
    auto const fault = test::fault_of(one, baseline, changed, test::disabled_values::stored);
    CHECK_MESSAGE(fault.empty(), one.setting, " ", fault);
    tried.insert(canonical(one.key()));
    for (std::string const section : {"eval_loader", "model.config_overrides"})
      if (one.key().starts_with(section + '.')) tried.insert(section);
    ++counts[one.expected];
  }
  for (auto const& key : known)
    CHECK_MESSAGE(test::is_tried(tried, key), key, " has no row in this table");
  MESSAGE(known.size(), " keys known, ", tried.size(), " of them tried by themselves in ",
          rows.size(), " rows: ", counts[changes], " change the run, ", counts[refused],
          " are refused, ", counts[listed], " listed, ", counts[noted], " noted");
}

/// The keys that a source requests from its reader by a literal name.
std::set<std::string> requested_keys(std::string const& source) {
  static std::regex const call(
      R"((?:\.(?:get|required|optional|section|raw|one_of|refuse_unsupported|accept_without_effect|is_named|refuse_present|refuse_named)(?:<[^>(]*>)?\(|(?:read_name|read_path|positive|read_ranks|read_planned|read_strings|read_texts|read_patterns|read_epochs_or_time)\(\w+,)\s*"([a-z0-9_]+)\")");
  std::set<std::string> out;
  for (std::sregex_iterator match(source.begin(), source.end(), call), end; match != end; ++match)
    out.insert((*match)[1]);
  return out;
}

TEST_CASE("known keys: a file that is being written has the keys of its sections and all others") {
  test_files const files;
  auto const file = files.folder / "run.yaml";
  auto const effective_keys = [&](std::string const& text, overrides const& changed) {
    parallel::replace_text_file(file, text);
    std::set<std::string> names;
    for (auto const& key : mpt::known_keys(file, changed))
      if (key.role == mpt::key_role::effective) names.insert(key.name);
    return names;
  };
  auto const whole = effective_keys(base, {"model.peft_config.r=4"});
  CHECK(whole.contains("max_duration"));
  CHECK(whole.contains("model.peft_config.lora_alpha"));
  CHECK(whole.contains("callbacks.early_stopper.patience"));
  CHECK(!effective_keys(base, {}).contains("model.peft_config.lora_alpha"));
  CHECK(!whole.contains("train_loader.dataset.hf_name"));
  for (std::string const text : {"max_seq_len: [", "max_seq_len: many", "", "a: 1"}) {
    CAPTURE(text);
    auto const names = effective_keys(text, {"not an override"});
    CHECK(names.contains("max_duration"));
    CHECK(names.contains("train_loader.dataset.shuffle_seed"));
    CHECK(names.contains("train_loader.dataset.hf_name"));
    CHECK(names.contains("train_loader.dataset.shuffle_algo"));  // of sets of text alone
  }
  auto const keys = mpt::known_keys(file);
  CHECK(std::ranges::is_sorted(keys, {}, &mpt::known_key::name));
  std::set<std::string> documented{"eval_loader"};  // whose keys are in the table as train_loader's
  for (row const& one : all_rows()) documented.insert(canonical(one.key()));
  for (auto const& key : keys) {
    auto const name = canonical(key.name);
    auto const is_member = [&](std::string const& other) { return other.starts_with(name); };
    CHECK_MESSAGE(std::ranges::any_of(documented, is_member), name);
  }
}

TEST_CASE("known keys: every key that a source reads has a row in the table") {
  std::set<std::string> key_endings;
  for (row const& one : all_rows()) {
    std::string const key = one.key();
    for (std::size_t offset = 0; offset != std::string::npos;) {
      auto const dot = key.find('.', offset);
      key_endings.insert(key.substr(offset, dot == std::string::npos ? dot : dot - offset));
      offset = dot == std::string::npos ? dot : dot + 1;
    }
  }
  std::size_t found = 0;
  auto const headers = test::checkout() / "include" / "mpt";
  std::vector<std::filesystem::path> sources;
  for (auto const& folder : {headers / "config", test::checkout() / "src" / "mpt" / "config"})
    for (auto const& file : std::filesystem::recursive_directory_iterator(folder))
      if (file.is_regular_file() && file.path().parent_path().filename() != "families")
        sources.push_back(file.path());
  for (auto const& source : sources) {
    auto const text = parallel::read_text_file(source, 1 << 20);
    for (auto const& key : requested_keys(text)) {
      CHECK_MESSAGE(key_endings.contains(key), source.filename().string(), " asks for ", key,
                    ", which has no row");
      ++found;
    }
  }
  CHECK(found > 150);
}

}  // namespace read_train_keys_test
