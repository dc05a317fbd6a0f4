// Finds the files of a split in a folder, as Hugging Face datasets does.
//
// The first of these rules that finds any split decides: files data/SPLIT-00000-of-00003.*; folders
// named after a split; files named after a split; else all files are "train". A name names a split
// when it contains one of the split's words as a separate word, between its ends, digits and any of
// "-._ ". Only files of the supported formats count, so a README does no harm; hidden files, and
// files that describe a data set (dataset_infos.json), do not count. Only files of one format are
// read, the one that most of the split's files have, since other formats mostly repeat the same
// rows. If the requested split is not among those found, SPLIT.jsonl (.json, .csv, .parquet) is it.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/byte_stream.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// The ending that says a data file's format, in lower case and without the ending of a compression
/// (.gz, .zst, .zstd).
[[nodiscard]] std::string format_ending(std::filesystem::path const& file);

/// Whether a file has a supported format: JSON, CSV or Parquet.
[[nodiscard]] bool is_data_file(std::filesystem::path const& file);

/// Whether a file of this name describes a data set and holds none of its rows.
[[nodiscard]] bool describes_set(std::string_view name);

/// All data files below `folder` in the order of their paths, without those in hidden folders.
[[nodiscard]] std::vector<std::filesystem::path> data_files_below(
    std::filesystem::path const& folder);

namespace detail {

struct split_words {
  std::string_view split;
  std::array<std::string_view, 4> words;
};

inline constexpr std::array<split_words, 3> known_splits = {
    {{"train", {"train", "training", "", ""}},
     {"validation", {"validation", "valid", "dev", "val"}},
     {"test", {"test", "testing", "eval", "evaluation"}}}};

[[nodiscard]] bool names_split(std::string_view name, split_words const& split);

}  // namespace detail

/// The splits of `files`, which are below `folder`. A file may belong to several.
[[nodiscard]] std::map<std::string, std::vector<std::filesystem::path>> splits_of(
    std::filesystem::path const& folder, std::vector<std::filesystem::path> const& files);

/// The files of the format that most of a split's files have. Of equally frequent formats the first
/// of Parquet, JSON lines, JSON and CSV is taken.
[[nodiscard]] std::vector<std::filesystem::path> files_of_one_format(
    std::vector<std::filesystem::path> const& files);

/// The name of a file that `files` lack although the name of one of them, such as
/// train-00000-of-00003.parquet, says that there are so many; empty if they lack none.
[[nodiscard]] std::string missing_part(std::vector<std::filesystem::path> const& files);

/// The files of a split in `folder`. Error: no such split; the message lists the splits that exist.
[[nodiscard]] std::vector<std::filesystem::path> split_files(std::filesystem::path folder,
                                                             std::string const& split);

}  // namespace mpt::finetune
