#include <inputs/same_inputs.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/hf/convert.hpp>
#include <nlohmann/json.hpp>
#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include <launch/launch.hpp>

namespace apps {
namespace {

/// The parts of dotted names of settings that name files and folders, or what has no effect itself.
/// Weights have one name on all ranks: rank 0's, by which each loads them.
constexpr std::array<std::string_view, 12> machine_settings = {
    "local",   "remote",     "save_folder", "local_save_folder", "pretrained_lora_id_or_path",
    "hf_name", "data_files", "icl_tasks",   "metrics_file",      "filename",
    "mirrors", "variables"};

[[nodiscard]] bool names_path(std::string_view setting) {
  if (setting == "tokenizer.name") return true;
  for (std::string_view rest = setting; !rest.empty();) {
    auto const part = rest.substr(0, rest.find('.'));
    if (std::ranges::find(machine_settings, part) != machine_settings.end()) return true;
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  return false;
}

/// The files of a tokenizer that are read.
constexpr std::array<std::string_view, 5> tokenizer_texts = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja"};

/// Adds the members of a JSON object, at any depth, by dotted names.
void add_members(mpt::input_facts& facts, std::string const& path, nlohmann::json const& object) {
  auto const members = object.flatten();
  for (auto const& [pointer, value] : members.items()) {
    auto name = pointer.substr(std::min<std::size_t>(1, pointer.size()));
    std::ranges::replace(name, '/', '.');
    facts.push_back({"the model", path, name, value.dump()});
  }
}

}  // namespace

mpt::input_fact program_fact() {
  return {.input = "the program", .value = mpt::file_checksum("/proc/self/exe")};
}

mpt::input_facts setting_facts(std::filesystem::path const& file,
                               std::span<mpt::written_key const> written) {
  mpt::input_facts out;
  for (auto const& setting : written)
    if (!names_path(setting.name))
      out.push_back({"the configuration", file.string(), setting.name, setting.text});
  return out;
}

mpt::input_facts model_facts(mpt::model_config model, std::filesystem::path const& path) {
  model.stored = {};  // what the file has besides settings, such as the type of the weights
  std::error_code unreadable;  // an unreadable file counts as absent
  auto const file = path / "config.json";
  auto const shown = std::filesystem::exists(file, unreadable) ? file.string() : path.string();
  mpt::input_facts out;
  add_members(out, shown, mpt::config_json_of(model, "float32"));
  nlohmann::json unlisted_settings;  // those that a family's config.json does not have
  if (mpt::find_family(model.family) != nullptr)
    unlisted_settings["settings"] = mpt::to_hf_json(model, "float32");
  if (model.lora) unlisted_settings["peft_config"] = mpt::to_peft_json(*model.lora, {}, model);
  if (!unlisted_settings.is_null()) add_members(out, shown, unlisted_settings);
  return out;
}

mpt::input_facts tokenizer_facts(std::filesystem::path const& path) {
  mpt::input_facts out;
  std::error_code unreadable;  // an unreadable tokenizer counts as absent
  bool const is_folder = std::filesystem::is_directory(path, unreadable);
  if (path.empty() || !std::filesystem::exists(path, unreadable)) return out;
  auto const folder = is_folder ? path : path.parent_path();
  std::vector<std::string_view> names;
  auto const add = [&](std::string_view name, std::filesystem::path const& file) {
    if (!std::filesystem::is_regular_file(file, unreadable)) return;
    names.push_back(name);
    out.push_back(
        {"the tokenizer", path.string(), std::string(name), mpt::file_checksum(file), true});
  };
  for (auto const name : tokenizer_texts)
    add(name, name == tokenizer_texts.front() && !is_folder ? path : folder / name);
  out.push_back({"the tokenizer", path.string(), "its files",
                 fmt::format("{}", fmt::join(names, ", ")), true});
  return out;
}

mpt::input_facts task_facts(std::span<mpt::eval::task_config const> tasks) {
  mpt::input_facts out;
  for (auto const& task : tasks) {
    nlohmann::json const settings{task.shots,
                                  task.prompt_string,
                                  task.example_delimiter,
                                  task.continuation_delimiter,
                                  task.question_prelimiter,
                                  task.cot_delimiter,
                                  task.stops,
                                  task.do_normalization,
                                  task.has_categories,
                                  task.seed,
                                  task.batch_size,
                                  task.max_seq_len};
    auto const input = "the task " + task.label;
    out.push_back({input, task.file.string(), "its settings",
                   fmt::format("{} {}", to_string(task.kind), settings.dump())});
    out.push_back({input, task.file.string(), "its rows", mpt::file_checksum(task.file)});
  }
  return out;
}

std::chrono::local_seconds date_of_first_rank(std::chrono::local_seconds date,
                                              parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  std::int64_t seconds = date.time_since_epoch().count();
  comm.broadcast(exchanges, std::span<std::int64_t>(&seconds, 1), 0).wait();
  return std::chrono::local_seconds(std::chrono::seconds(seconds));
}

bool equals_first_rank(mpt::input_facts const& facts, parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  auto const local_checksum = parallel::checkpoint::checksum(to_text(facts));
  std::uint64_t first = local_checksum;
  comm.broadcast(exchanges, std::span<std::uint64_t>(&first, 1), 0).wait();
  return local_checksum == first;
}

void check_same_inputs(mpt::input_facts const& facts, parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  std::int64_t differing = equals_first_rank(facts, comm) ? 0 : 1;
  comm.all_reduce(exchanges, std::span<std::int64_t>(&differing, 1), parallel::reduction::sum)
      .wait();
  if (differing == 0) return;
  auto const expected = parallel::broadcast_text(comm, exchanges, to_text(facts));
  auto const difference =
      mpt::input_difference(mpt::parse_input_facts(expected), facts, comm.rank());
  auto const differences =
      parallel::gather_texts(comm, exchanges, difference.value_or(std::string()));
  std::vector<int> ranks;
  std::string sentence;
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    ranks.push_back(static_cast<int>(rank));
    if (sentence.empty()) sentence = differences[rank];
  }
  if (!ranks.empty())
    throw refusal(
        fmt::format("{} read{} other inputs than rank 0: {}; give all ranks the same "
                    "program, configuration, model, tokenizer and data",
                    parallel::name_ranks(ranks), ranks.size() == 1 ? "s" : "", sentence));
}

}  // namespace apps
