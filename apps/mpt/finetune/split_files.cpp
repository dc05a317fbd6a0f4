#include <mpt/finetune/split_files.hpp>

#include <algorithm>
#include <cstddef>
#include <system_error>

namespace mpt::finetune {
namespace {

/// Whether `word` stands in `name` between its ends, digits and signs. A file's name goes on behind
/// the word, with its ending at least.
[[nodiscard]] bool names_word(std::string_view name, std::string_view word) {
  constexpr std::string_view between = "-._ 0123456789";
  for (auto at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    auto const after = at + word.size();
    if ((at == 0 || between.find(name[at - 1]) != between.npos) &&
        (after == name.size() || between.find(name[after]) != between.npos))
      return true;
  }
  return false;
}

/// SPLIT of "SPLIT-00000-of-00003.jsonl"; empty for other names.
[[nodiscard]] std::string_view sharded_split(std::string_view name) {
  for (auto at = name.find('-'); at != name.npos; at = name.find('-', at + 1)) {
    auto const rest = name.substr(at);
    constexpr std::string_view shape = "-00000-of-00000";
    bool fits = rest.size() > shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i] == '0' ? rest[i] >= '0' && rest[i] <= '9' : rest[i] == shape[i];
    if (fits) return name.substr(0, at);
  }
  return {};
}

}  // namespace

std::string format_ending(std::filesystem::path const& file) {
  auto name = file.filename();
  if (data::compression_of(name.native()) != data::compression::none) name = name.stem();
  return data::lower_case(name.extension().native());
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
  std::vector<std::filesystem::path> out;
  std::error_code failure;
  std::filesystem::recursive_directory_iterator place(folder, failure);
  for (; !failure && place != std::filesystem::end(place); place.increment(failure)) {
    auto const name = place->path().filename().native();
    bool const hidden = name.starts_with('.');
    if (place->is_directory() && (hidden || name.starts_with("__")))
      place.disable_recursion_pending();
    if (!hidden && !describes_set(name) && place->is_regular_file() && is_data_file(place->path()))
      out.push_back(place->path());
  }
  parallel::require(!failure, folder.native(), ": cannot be listed: ", failure.message());
  std::ranges::sort(out);
  return out;
}

std::map<std::string, std::vector<std::filesystem::path>> splits_of(
    std::filesystem::path const& folder, std::vector<std::filesystem::path> const& files) {
  std::map<std::string, std::vector<std::filesystem::path>> out;
  for (auto const& file : files) {
    if (file.parent_path() != folder / "data") continue;
    std::string const name = file.filename().native();
    if (auto const split = sharded_split(name); !split.empty())
      out[std::string(split)].push_back(file);
  }
  for (bool const by_folder : {true, false}) {
    if (!out.empty()) return out;
    for (auto const& file : files)
      for (auto const& split : detail::known_splits) {
        bool named = !by_folder && detail::names_split(file.filename().native(), split);
        if (by_folder)
          for (auto const& part : file.parent_path().lexically_relative(folder))
            named |= detail::names_split(part.native(), split);
        if (named) out[std::string(split.split)].push_back(file);
      }
  }
  if (out.empty() && !files.empty()) out["train"] = files;
  return out;
}

std::vector<std::filesystem::path> files_of_one_format(
    std::vector<std::filesystem::path> const& files) {
  std::map<std::string, std::size_t> counts;
  for (auto const& file : files) ++counts[format_ending(file)];
  std::string most;
  for (std::string_view const ending :
       {".parquet", ".jsonl", ".json", ".csv", ".ndjson", ".jsonlines"})
    if (auto const found = counts.find(std::string(ending));
        found != counts.end() && (most.empty() || found->second > counts[most]))
      most = ending;
  bool const json = data::is_json_ending(most);
  std::vector<std::filesystem::path> out;
  for (auto const& file : files) {
    auto const ending = format_ending(file);
    if (ending == most || (json && data::is_json_ending(ending))) out.push_back(file);
  }
  return out;
}

std::vector<std::filesystem::path> split_files(std::filesystem::path folder,
                                               std::string const& split) {
  if (!folder.has_filename()) folder = folder.parent_path();  // "folder/" is "folder"
  auto const files = data_files_below(folder);
  std::error_code unreadable;  // then it is not there
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
  std::string there;
  for (auto const& [name, its] : splits) there += (there.empty() ? "" : ", ") + name;
  parallel::fail(folder.native(), ": has no split \"", split, "\"; it has ", there, " (",
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
