#include <mpt/finetune/find_files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/split_files.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/node.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt::finetune {
namespace {

constexpr std::string_view wildcards = "*?[";

/// Whether the components [path, path_end) of a file's path match those of a pattern, as datasets
/// reads it: the component ** stands for any number of folders, or, as the last, for all below.
[[nodiscard]] bool matches(std::filesystem::path::const_iterator pattern,
                           std::filesystem::path::const_iterator pattern_end,
                           std::filesystem::path::const_iterator path,
                           std::filesystem::path::const_iterator path_end) {
  if (pattern == pattern_end) return path == path_end;
  auto const rest = std::next(pattern);
  if (*pattern == "**") {
    if (rest == pattern_end) return true;
    for (; path != path_end; ++path)
      if (matches(rest, pattern_end, path, path_end)) return true;
    return false;
  }
  return path != path_end && ::fnmatch(pattern->c_str(), path->c_str(), 0) == 0 &&
         matches(rest, pattern_end, std::next(path), path_end);
}

/// The components of a pattern from its first wildcard on, in the words of fnmatch(3): there \ does
/// not stand for itself, and ^ after [ does what ! does.
[[nodiscard]] std::filesystem::path wildcard_part(std::filesystem::path const& pattern,
                                                  std::string_view source) {
  std::filesystem::path out;
  for (auto const& component : pattern) {
    auto const& text = component.native();
    if (text.empty() || (out.empty() && text.find_first_of(wildcards) == text.npos)) continue;
    parallel::require(text == "**" || text.find("**") == text.npos, source, ": ",
                      printable(pattern.native()),
                      ": ** stands for folders, alone between slashes, as in **/*.jsonl");
    std::string escaped;
    for (char const letter : text) {
      if (letter == '\\' || (letter == '^' && escaped.ends_with('['))) escaped += '\\';
      escaped += letter;
    }
    out /= escaped;
  }
  return out;
}

/// The files that one path of data_files names, which may have the wildcards *, ? and [] below its
/// folder. `source` has the path, for errors.
[[nodiscard]] std::vector<std::filesystem::path> matching_files(
    std::filesystem::path const& base, std::string const& pattern,
    std::string_view source = "data_files") {
  auto const path = base / pattern;
  if (pattern.find_first_of(wildcards) == pattern.npos) {
    parallel::require(std::filesystem::is_regular_file(path), path.native(), ": not a file; ",
                      source, " names it");
    parallel::require(is_data_file(path), path.native(),
                      ": not of a format that is read; expected .jsonl, .json, .csv or .parquet "
                      "(.gz and .zst too)");
    return {path};
  }
  auto folder = base;
  for (auto const& component : std::filesystem::path(pattern)) {
    if (component.native().find_first_of(wildcards) != std::string::npos) break;
    folder /= component;
  }
  if (folder.empty()) folder = ".";
  auto const wanted = wildcard_part(pattern, source);
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  if (std::filesystem::is_directory(folder, failure))
    for (auto const& file : data_files_below(folder)) {
      auto const found = file.lexically_relative(folder);
      if (matches(wanted.begin(), wanted.end(), found.begin(), found.end())) files.push_back(file);
    }
  parallel::require(!files.empty(), path.native(), ": no data file is named so; ", source,
                    " asks for it");
  return files;
}

/// Returns `file`, the only file that hf_name names, if it belongs to `split`. Words in the file's
/// name say its splits; without such words it belongs to train and to the split that its folder
/// names. An empty `split` accepts any file.
[[nodiscard]] std::filesystem::path file_of_split(std::filesystem::path const& file,
                                                  std::string const& split) {
  auto const name = file.filename().native();
  auto const is_requested =
      [&](detail::split_words const& known_split) {  // by its name or any of its words
        return known_split.split == split ||
               std::ranges::find(known_split.words, split) != known_split.words.end();
      };
  std::string split_names;
  bool belongs_to_split = split.empty() || name.starts_with(split + ".");
  for (auto const& known_split : detail::known_splits) {
    if (!detail::names_split(name, known_split)) continue;
    split_names += parallel::concat(split_names.empty() ? "" : ", ", known_split.split);
    belongs_to_split |= is_requested(known_split);
  }
  if (split_names.empty()) {
    split_names = "train";
    belongs_to_split |= split == "train";
    auto const folder = file.parent_path().filename();
    for (auto const& known_split : detail::known_splits)
      belongs_to_split |=
          is_requested(known_split) && detail::names_split(folder.native(), known_split);
  }
  parallel::require(
      belongs_to_split, file.native(), ": is of split ", split_names, " by its name, and split \"",
      split, "\" is asked for; name a file of that split, such as ", split, format_ending(file),
      ", or set split: ", split_names.substr(0, split_names.find(',')));
  return file;
}

/// Throws unless a path that a README.md names stays in the folder of that file, whose author need
/// not be the one who trains.
void require_inside(std::filesystem::path const& folder, std::string const& path) {
  auto const normal = std::filesystem::path(path).lexically_normal();
  bool const leads_out = normal.is_absolute() || (!normal.empty() && *normal.begin() == "..");
  parallel::require(!leads_out, (folder / "README.md").native(), ": names \"", path,
                    "\", which leads out of its folder");
}

/// The configuration of a folder's README.md that is asked for, if it has any.
[[nodiscard]] std::optional<card_config> card_of(file_names const& names) {
  auto card = read_dataset_card(names.name, names.subset);
  parallel::require(card || names.subset.empty() || names.subset == "default", names.name,
                    ": has no subset \"", names.subset,
                    "\"; its README.md names none, so leave the subset out");
  return card;
}

/// The folder of a configuration's files.
[[nodiscard]] std::filesystem::path folder_of(std::filesystem::path const& folder,
                                              card_config const& card) {
  require_inside(folder, card.data_dir);
  return card.data_dir.empty() ? folder : folder / card.data_dir;
}

/// The files that the README.md of `folder` lists for a split.
[[nodiscard]] std::vector<std::filesystem::path> files_of_card(std::filesystem::path const& folder,
                                                               card_config const& card,
                                                               std::string const& split) {
  auto const base = folder_of(folder, card);
  if (card.data_files.empty()) return split_files(base, split);
  auto const found = card.data_files.find(split);
  std::string split_names;
  for (auto const& [name, paths] : card.data_files)
    split_names += (split_names.empty() ? "" : ", ") + name;
  parallel::require(found != card.data_files.end(), (folder / "README.md").native(),
                    ": its configuration ", card.name, " has no split \"", split, "\"; it has ",
                    split_names);
  std::vector<std::filesystem::path> files;
  for (auto const& pattern : found->second) {
    require_inside(folder, (std::filesystem::path(card.data_dir) / pattern).native());
    for (auto& file : matching_files(base, pattern, "README.md"))
      if (std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
  }
  return files_of_one_format(files);
}

}  // namespace

std::vector<std::filesystem::path> find_files(file_names const& names) {
  namespace fs = std::filesystem;
  std::error_code failure;
  bool const is_single_file = names.data_files.empty() && fs::is_regular_file(names.name, failure);
  parallel::require(!names.split.empty() || is_single_file, "the split of \"", names.name,
                    "\" is not given; set split, such as train");
  parallel::require(
      names.split.find_first_of("[+") == std::string::npos, "split \"", names.split,
      "\": parts and sums of splits are not supported; write those rows to a separate file");
  bool const is_format = names.name == "json" || names.name == "csv" || names.name == "parquet";
  bool const is_folder = fs::is_directory(names.name, failure);
  bool const has_configurations =
      is_folder && !is_format && names.data_dir.empty() && names.data_files.empty();
  parallel::require(names.subset.empty() || has_configurations, "hf_kwargs.name \"", names.subset,
                    "\" is a configuration of the README.md of a set; leave it out where data_dir, "
                    "data_files or a format says which files are read");
  if (!names.data_files.empty()) {
    auto const base =
        is_folder && !is_format ? fs::path(names.name) / names.data_dir : fs::path(names.data_dir);
    auto const found = names.data_files.find(names.split);
    std::string split_names;
    for (auto const& [split, paths] : names.data_files)
      split_names += (split_names.empty() ? "" : ", ") + split;
    parallel::require(found != names.data_files.end(), "data_files has no split \"", names.split,
                      "\"; it has ", split_names);
    std::vector<fs::path> files;
    for (auto const& pattern : found->second)
      for (auto& file : matching_files(base, pattern)) files.push_back(std::move(file));
    return files;
  }
  if (has_configurations)
    if (auto const card = card_of(names)) return files_of_card(names.name, *card, names.split);
  if (is_folder && !is_format)
    return split_files(fs::path(names.name) / names.data_dir, names.split);
  if (is_format) {
    parallel::require(!names.data_dir.empty(), "hf_name is the format \"", names.name,
                      "\", whose files are not named; set hf_kwargs.data_dir or "
                      "hf_kwargs.data_files");
    parallel::require(fs::is_directory(names.data_dir, failure), names.data_dir,
                      ": not a folder; hf_kwargs.data_dir names it");
    return split_files(names.data_dir, names.split);
  }
  if (is_single_file) {
    parallel::require(is_data_file(names.name), names.name,
                      ": not of a format that is read; expected .jsonl, .json, .csv or .parquet "
                      "(.gz and .zst too)");
    return {file_of_split(names.name, names.split)};
  }
  parallel::fail(
      "hf_name \"", names.name,
      "\" is no folder or file on this machine, and nothing is downloaded: get the "
      "set's files from the Hugging Face Hub, or a mirror, into a folder, and set hf_name "
      "to that folder",
      registered_preprocessor_of(names.name)
          ? parallel::concat(" and preprocessing_fn to \"", names.name, "\"")
          : std::string());
}

std::vector<std::string> split_names(file_names const& names) {
  std::vector<std::string> out;
  auto const card = card_of(names);
  auto const base = card ? folder_of(names.name, *card) : std::filesystem::path(names.name);
  if (card)
    for (auto const& [split, paths] : card->data_files) out.push_back(split);
  if (out.empty())
    for (auto const& [split, files] : splits_of(base, data_files_below(base))) out.push_back(split);
  return out;
}

namespace {

/// The lines of `configs` in a README's header, preceded by an empty line for each earlier line, so
/// that line numbers in messages are those of the file; "": there are none.
[[nodiscard]] std::string header_configs(std::string_view readme) {
  std::string lines;
  bool inside = false;
  bool found = false;
  for (std::size_t begin = 0; begin < readme.size();) {
    auto const end = std::min(readme.find('\n', begin), readme.size());
    auto line = readme.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool const is_first_line = begin == 0;
    begin = end + 1;
    if (is_first_line != (line == "---")) break;  // no header, or its end
    bool const continues_block = line.empty() || line[0] == ' ' || line[0] == '-' || line[0] == '#';
    inside = !is_first_line && (line.starts_with("configs:") || (inside && continues_block));
    found |= inside;
    lines.append(inside ? line : std::string_view()).append("\n");
  }
  return found ? lines : std::string();
}

[[nodiscard]] std::vector<std::string> paths_of(config_node const& node) {
  std::vector<std::string> paths;
  if (node.is_scalar()) paths.push_back(node.text);
  for (auto const& item : node.items) {
    parallel::require(item.is_scalar(), item.location,
                      ": expected a path or a list of paths, found ", describe(item));
    paths.push_back(item.text);
  }
  parallel::require(!paths.empty() && !node.is_map(), node.location,
                    ": expected a path or a list of paths, found ", describe(node));
  return paths;
}

/// The files by split of a list of {split, path}, or of a list of paths, which are all of split
/// train.
[[nodiscard]] std::map<std::string, std::vector<std::string>> card_files(config_node const& node) {
  bool const by_split = node.is_list() && !node.items.empty() && node.items[0].is_map();
  if (!by_split) return {{"train", paths_of(node)}};
  std::map<std::string, std::vector<std::string>> files;
  for (auto const& item : node.items) {
    config_node const* const split = item.find("split");
    config_node const* const path = item.find("path");
    parallel::require(split != nullptr && split->is_scalar() && path != nullptr, item.location,
                      ": expected {split: NAME, path: PATH} in data_files");
    for (auto& path_text : paths_of(*path)) files[split->text].push_back(std::move(path_text));
  }
  return files;
}

[[nodiscard]] card_config read_card_config(config_node const& node) {
  config_node const* const name = node.find("config_name");
  parallel::require(name != nullptr && name->is_scalar(), node.location,
                    ": expected config_name in each of configs");
  card_config config{.name = name->text};
  if (config_node const* const is_default = node.find("default"))
    config.is_default = parse_bool(is_default->text).value_or(false);
  if (config_node const* const folder = node.find("data_dir")) config.data_dir = folder->text;
  if (config_node const* const files = node.find("data_files"))
    config.data_files = card_files(*files);
  return config;
}

}  // namespace

std::optional<card_config> read_dataset_card(std::filesystem::path const& folder,
                                             std::string_view subset) {
  auto const file = folder / "README.md";
  std::error_code unreadable;  // an unreadable file counts as absent
  if (!std::filesystem::is_regular_file(file, unreadable)) return std::nullopt;
  constexpr std::uint64_t longest = std::uint64_t{1} << 24;
  auto const text = header_configs(parallel::read_text_file(file, longest));
  if (text.empty()) return std::nullopt;
  auto const root = parse_yaml(text, file.native());
  config_node const* const list = root.find("configs");
  if (list == nullptr || list->is_null()) return std::nullopt;
  parallel::require(list->is_list() && !list->items.empty(), list->location,
                    ": configs: expected a list of mappings, found ", describe(*list));
  std::vector<card_config> configs;
  for (auto const& item : list->items) configs.push_back(read_card_config(item));
  auto const is_wanted = [&](card_config const& config) {
    if (!subset.empty()) return config.name == subset;
    return configs.size() == 1 || config.name == "default" || config.is_default;
  };
  auto const found = std::ranges::find_if(configs, is_wanted);
  if (found != configs.end()) return std::move(*found);
  std::string names;
  for (auto const& config : configs) names += (names.empty() ? "" : ", ") + config.name;
  parallel::require(subset.empty(), file.native(), ": has no subset \"", subset, "\"; it has ",
                    names);
  parallel::fail(file.native(), ": has the configurations ", names,
                 ", none of which is the default; name one with "
                 "hf_kwargs.name (for prepare: --data_subset), or its files with "
                 "hf_kwargs.data_files");
}

}  // namespace mpt::finetune
