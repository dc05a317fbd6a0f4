// Which files of a folder are a split, as Hugging Face datasets finds them.
//
// In this order, the first that finds any split counts: files data/SPLIT-00000-of-00003.*; folders
// named after a split; files named after one; else all files are "train". A name names a split when
// one of the split's words stands in it alone, between its ends, digits and any of "-._ ". Only
// files of the supported formats count, so a README lies there in peace; hidden ones, and those
// that describe a set (dataset_infos.json), do not. Of a split's files those of one format are
// read, that of most of them, since others mostly hold the same rows once more. If none of the
// splits found is the one asked for, SPLIT.jsonl (.json, .csv, .parquet) is taken.
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

/// The ending that says a data file's format, without that of a compression (.gz, .zst, .zstd), in
/// small letters.
[[nodiscard]] std::string format_ending(std::filesystem::path const& file);

/// Whether a file is of a format that is read: JSON, CSV or Parquet.
[[nodiscard]] bool is_data_file(std::filesystem::path const& file);

/// Whether a file of this name says something of a data set and holds none of its rows.
[[nodiscard]] bool describes_set(std::string_view name);

/// All data files below `folder` in the order of their paths, those of hidden folders left out.
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

/// The splits of `files`, which lie below `folder`. A file may belong to several.
[[nodiscard]] std::map<std::string, std::vector<std::filesystem::path>> splits_of(
    std::filesystem::path const& folder, std::vector<std::filesystem::path> const& files);

/// Of a split's files those of the format that most of them have; of two that as many have Parquet,
/// JSON lines, JSON and CSV in this order.
[[nodiscard]] std::vector<std::filesystem::path> files_of_one_format(
    std::vector<std::filesystem::path> const& files);

/// The files of a split in `folder`. Error: none, with the splits and files that are there.
[[nodiscard]] std::vector<std::filesystem::path> split_files(std::filesystem::path folder,
                                                             std::string const& split);

}  // namespace mpt::finetune
