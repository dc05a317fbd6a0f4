#include <mpt/finetune/split_files.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <mpt/ascii.hpp>

namespace mpt::finetune {
namespace {

/// Whether `name` contains `word` as a separate word: between its ends, digits and separators.
[[nodiscard]] bool names_word(std::string_view name, std::string_view word) {
  constexpr std::string_view separators = "-._ 0123456789";
  for (auto begin = name.find(word); begin != name.npos; begin = name.find(word, begin + 1)) {
    auto const end = begin + word.size();
    if ((begin == 0 || separators.find(name[begin - 1]) != separators.npos) &&
        (end == name.size() || separators.find(name[end]) != separators.npos))
      return true;
  }
  return false;
}

/// SPLIT of "SPLIT-00000-of-00003.jsonl"; empty for other names.
[[nodiscard]] std::string_view sharded_split(std::string_view name) {
  for (auto dash = name.find('-'); dash != name.npos; dash = name.find('-', dash + 1)) {
    auto const rest = name.substr(dash);
    constexpr std::string_view pattern = "-00000-of-00000";
    bool matches = rest.size() > pattern.size();
    for (std::size_t i = 0; matches && i < pattern.size(); ++i)
      matches = pattern[i] == '0' ? rest[i] >= '0' && rest[i] <= '9' : rest[i] == pattern[i];
    if (matches) return name.substr(0, dash);
  }
  return {};
}

/// Whether `name` has five digits at `begin`.
[[nodiscard]] bool is_number(std::string_view name, std::size_t begin) {
  return begin + 5 <= name.size() && name.find_first_not_of("0123456789", begin) >= begin + 5;
}

}  // namespace

std::string format_ending(std::filesystem::path const& file) {
  auto name = file.filename();
  if (data::compression_of(name.native()) != data::compression::none) name = name.stem();
  return lower_case(name.extension().native());
}

bool is_data_file(std::filesystem::path const& file) {
  auto const ending = format_ending(file);
  return data::is_json_ending(ending) || ending == ".csv" || ending == ".parquet";
}

bool describes_set(std::string_view name) {
  constexpr std::array<std::string_view, 5> names = {
      "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"};
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::filesystem::path> data_files_below(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  std::filesystem::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::end(entry); entry.increment(failure)) {
    auto const name = entry->path().filename().native();
    bool const hidden = name.starts_with('.');
    if (entry->is_directory() && (hidden || name.starts_with("__")))
      entry.disable_recursion_pending();
    if (!hidden && !describes_set(name) && entry->is_regular_file() && is_data_file(entry->path()))
      files.push_back(entry->path());
  }
  parallel::require(!failure, folder.native(), ": cannot be listed: ", failure.message());
  // as texts, as datasets sorts them: of paths, the folder x would go before x-y
  std::ranges::sort(files, {}, &std::filesystem::path::native);
  return files;
}

std::map<std::string, std::vector<std::filesystem::path>> splits_of(
    std::filesystem::path const& folder, std::vector<std::filesystem::path> const& files) {
  std::map<std::string, std::vector<std::filesystem::path>> splits;
  for (auto const& file : files) {
    if (file.parent_path() != folder / "data") continue;
    std::string const name = file.filename().native();
    if (auto const split = sharded_split(name); !split.empty())
      splits[std::string(split)].push_back(file);
  }
  for (bool const by_folder : {true, false}) {
    if (!splits.empty()) return splits;
    for (auto const& file : files)
      for (auto const& split : detail::known_splits) {
        bool names_this_split = !by_folder && detail::names_split(file.filename().native(), split);
        if (by_folder)
          for (auto const& part : file.parent_path().lexically_relative(folder))
            names_this_split |= detail::names_split(part.native(), split);
        if (names_this_split) splits[std::string(split.split)].push_back(file);
      }
  }
  if (splits.empty() && !files.empty()) splits["train"] = files;
  return splits;
}

std::vector<std::filesystem::path> files_of_one_format(
    std::vector<std::filesystem::path> const& files) {
  std::map<std::string, std::size_t> counts;
  for (auto const& file : files) ++counts[format_ending(file)];
  std::string most_frequent;
  for (std::string_view const ending :
       {".parquet", ".jsonl", ".json", ".csv", ".ndjson", ".jsonlines"})
    if (auto const found = counts.find(std::string(ending));
        found != counts.end() && (most_frequent.empty() || found->second > counts[most_frequent]))
      most_frequent = ending;
  bool const is_json = data::is_json_ending(most_frequent);
  std::vector<std::filesystem::path> chosen;
  for (auto const& file : files) {
    auto const ending = format_ending(file);
    if (ending == most_frequent || (is_json && data::is_json_ending(ending)))
      chosen.push_back(file);
  }
  return chosen;
}

std::string missing_part(std::vector<std::filesystem::path> const& files) {
  // each part may have its own ending: train-00000-of-00003-6ef3991c06080e14.parquet
  std::set<std::filesystem::path> present;            // up to "-of-00003"
  std::map<std::filesystem::path, std::string> seen;  // without the number, with an ending
  for (auto const& file : files) {
    auto const name = file.filename().native();
    auto const middle = name.find("-of-");
    if (middle == name.npos || middle < 5 || !is_number(name, middle - 5) ||
        !is_number(name, middle + 4))
      continue;
    present.insert(file.parent_path() / name.substr(0, middle + 9));
    auto const ending = name.substr(middle + 9);
    seen.emplace(file.parent_path() / (name.substr(0, middle - 5) + name.substr(middle, 9)),
                 ending.starts_with('-') ? "*" : ending);
  }
  for (auto const& [file, ending] : seen) {
    auto const name = file.filename().native();
    auto const beginning = name.substr(0, name.size() - 9);
    int const count = std::stoi(name.substr(name.size() - 5));
    for (int i = 0; i < count; ++i) {
      auto const part = beginning + fmt::format("{:05}", i) + name.substr(name.size() - 9);
      if (!present.contains(file.parent_path() / part)) return part + ending;
    }
  }
  return {};
}

std::vector<std::filesystem::path> split_files(std::filesystem::path folder,
                                               std::string const& split) {
  if (!folder.has_filename()) folder = folder.parent_path();  // "folder/" is "folder"
  auto const files = data_files_below(folder);
  std::error_code unreadable;  // an unreadable file counts as absent
  parallel::require(!files.empty() || !std::filesystem::exists(folder / "state.json", unreadable),
                    folder.native(),
                    ": was written by save_to_disk, in Arrow's own form, which is not read; write "
                    "JSON lines: python3 -c \"import datasets; "
                    "datasets.load_from_disk('FOLDER').to_json('OUT.jsonl')\"");
  parallel::require(!files.empty(), folder.native(),
                    ": holds no data; expected files *.jsonl, *.json, *.csv or *.parquet (.gz and "
                    ".zst too)");
  auto const splits = splits_of(folder, files);
  if (auto const found = splits.find(split); found != splits.end())
    return files_of_one_format(found->second);
  for (auto const& file : files)
    if (file.parent_path() == folder && file.filename().native() == split + format_ending(file))
      return {file};
  std::string split_names;
  for (auto const& [name, paths] : splits) split_names += (split_names.empty() ? "" : ", ") + name;
  parallel::fail(folder.native(), ": has no split \"", split, "\"; it has ", split_names, " (",
                 files.size(), " files; the first is ",
                 files[0].lexically_relative(folder).native(), ")");
}

}  // namespace mpt::finetune

namespace mpt::finetune::detail {

bool names_split(std::string_view name, split_words const& split) {
  return std::ranges::any_of(
      split.words, [&](std::string_view word) { return !word.empty() && names_word(name, word); });
}

}  // namespace mpt::finetune::detail
