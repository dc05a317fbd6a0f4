#include <mpt/finetune/find_files.hpp>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include <mpt/finetune/dataset_card.hpp>
#include <mpt/finetune/preprocess.hpp>
#include <mpt/finetune/split_files.hpp>

namespace mpt::finetune {
namespace {

/// The files that one path of data_files names, which may have * and ? below its folder. `namer`:
/// what has the path, for errors.
[[nodiscard]] std::vector<std::filesystem::path> matching_files(
    std::filesystem::path const& base, std::string const& pattern,
    std::string_view namer = "data_files") {
  auto const path = base / pattern;
  if (pattern.find_first_of("*?[") == pattern.npos) {
    parallel::require(std::filesystem::is_regular_file(path), path.native(), ": not a file; ",
                      namer, " names it");
    parallel::require(is_data_file(path), path.native(),
                      ": not of a format that is read; expected .jsonl, .json, .csv or .parquet "
                      "(.gz and .zst too)");
    return {path};
  }
  std::filesystem::path folder;
  for (auto const& part : path) {
    if (part.native().find_first_of("*?[") != std::string::npos) break;
    folder /= part;
  }
  if (folder.empty()) folder = ".";
  std::vector<std::filesystem::path> out;
  std::error_code failure;
  bool const there = std::filesystem::is_directory(folder, failure);
  auto const wanted = path.lexically_relative(folder).native();
  // "**" reaches through folders, "*" does not
  int const flags = wanted.find("**") == wanted.npos ? FNM_PATHNAME : 0;
  if (there)
    for (auto const& file : data_files_below(folder))
      if (::fnmatch(wanted.c_str(), file.lexically_relative(folder).c_str(), flags) == 0)
        out.push_back(file);
  parallel::require(!out.empty(), path.native(), ": no data file is named so; ", namer,
                    " asks for it");
  return out;
}

/// A file that is named alone, if it is of `split`, by its name's words; without such, of train or
/// of what its folder is called; or no split is given.
[[nodiscard]] std::filesystem::path file_of_split(std::filesystem::path const& file,
                                                  std::string const& split) {
  auto const name = file.filename().native();
  auto const asks = [&](detail::split_words const& one) {  // by any of its words
    return one.split == split || std::ranges::find(one.words, split) != one.words.end();
  };
  std::string there;
  bool is = split.empty() || name.starts_with(split + ".");
  for (auto const& one : detail::known_splits) {
    if (!detail::names_split(name, one)) continue;
    there += parallel::concat(there.empty() ? "" : ", ", one.split);
    is |= asks(one);
  }
  if (there.empty()) {
    there = "train";
    is |= split == "train";
    auto const folder = file.parent_path().filename();
    for (auto const& one : detail::known_splits)
      is |= asks(one) && detail::names_split(folder.native(), one);
  }
  parallel::require(is, file.native(), ": is of split ", there, " by its name, and split \"", split,
                    "\" is asked for; name a file of that split, such as ", split,
                    format_ending(file), ", or set split: ", there.substr(0, there.find(',')));
  return file;
}

/// The files that `folder`'s README.md gives a split.
[[nodiscard]] std::vector<std::filesystem::path> files_of_card(std::filesystem::path const& folder,
                                                               card_config const& card,
                                                               std::string const& split) {
  auto const base = card.data_dir.empty() ? folder : folder / card.data_dir;
  if (card.data_files.empty()) return split_files(base, split);
  auto const found = card.data_files.find(split);
  std::string there;
  for (auto const& [name, its] : card.data_files) there += (there.empty() ? "" : ", ") + name;
  parallel::require(found != card.data_files.end(), (folder / "README.md").native(),
                    ": its configuration ", card.name, " has no split \"", split, "\"; it has ",
                    there);
  std::vector<std::filesystem::path> out;
  for (auto const& pattern : found->second)
    for (auto& file : matching_files(base, pattern, "README.md"))
      if (std::ranges::find(out, file) == out.end()) out.push_back(std::move(file));
  return files_of_one_format(out);
}

}  // namespace

std::vector<std::filesystem::path> find_files(file_names const& names) {
  namespace fs = std::filesystem;
  std::error_code failure;
  bool const alone = names.data_files.empty() && fs::is_regular_file(names.name, failure);
  parallel::require(!names.split.empty() || alone, "the split of \"", names.name,
                    "\" is not given; set split, such as train");
  parallel::require(names.split.find_first_of("[+") == std::string::npos, "split \"", names.split,
                    "\": parts and sums of splits are not supported; write those rows to a file of "
                    "their own");
  bool const format = names.name == "json" || names.name == "csv" || names.name == "parquet";
  bool const folder = fs::is_directory(names.name, failure);
  if (!names.data_files.empty()) {
    auto const base =
        folder && !format ? fs::path(names.name) / names.data_dir : fs::path(names.data_dir);
    auto const found = names.data_files.find(names.split);
    std::string there;
    for (auto const& [split, its] : names.data_files) there += (there.empty() ? "" : ", ") + split;
    parallel::require(found != names.data_files.end(), "data_files has no split \"", names.split,
                      "\"; it has ", there);
    std::vector<fs::path> out;
    for (auto const& pattern : found->second)
      for (auto& file : matching_files(base, pattern)) out.push_back(std::move(file));
    return out;
  }
  if (folder && !format && names.data_dir.empty())
    if (auto const card = read_dataset_card(names.name))
      return files_of_card(names.name, *card, names.split);
  if (folder && !format) return split_files(fs::path(names.name) / names.data_dir, names.split);
  if (format) {
    parallel::require(!names.data_dir.empty(), "hf_name is the format \"", names.name,
                      "\", whose files are not named; set hf_kwargs.data_dir or "
                      "hf_kwargs.data_files");
    parallel::require(fs::is_directory(names.data_dir, failure), names.data_dir,
                      ": not a folder; hf_kwargs.data_dir names it");
    return split_files(names.data_dir, names.split);
  }
  if (alone) {
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

}  // namespace mpt::finetune
