// Finds the files that a loader's hf_name, split and hf_kwargs name, on this machine.
//
// hf_name is a folder or a file, or a format (json, csv, parquet) whose files data_dir or
// data_files name. A folder's README.md may name them, too. A single file
// belongs to the split in its name (test.jsonl), else to `train`; a request for another split is an
// error, so that no evaluation reads training data. Nothing is downloaded here: a name on the
// Hugging Face Hub that is not a local folder is an error that says what to do.
//
// The dataset card of a data folder, its README.md as on the Hugging Face Hub: `configs` in the
// YAML header lists configurations, each with the files of its splits.
//
//   ---
//   configs:
//   - config_name: default
//     data_files:
//     - split: train
//       path: "data/train-*"
//   ---
//
// Hugging Face datasets follows the card before it looks at names of files. Only `configs` is
// parsed.
#pragma once

#include <fnmatch.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/file.hpp>

namespace mpt::finetune {

/// One configuration of a data set.
struct card_config {
  std::string name;
  bool is_default = false;
  std::string data_dir{};  ///< the subfolder of its files; "": the data folder itself
  std::map<std::string, std::vector<std::string>>
      data_files{};  ///< by split: paths below data_dir,
                     ///< in which * is a wildcard
};

/// The configuration `subset`, or, where that is empty, the one by which datasets reads `folder`:
/// the only one, the one named "default", or the one with `default: true`. Empty where README.md is
/// absent or has no configs. Errors: no configuration of that name; several without a default; a
/// malformed header.
[[nodiscard]] std::optional<card_config> read_dataset_card(std::filesystem::path const& folder,
                                                           std::string_view subset = {});

/// The keys of a loader that name files.
struct file_names {
  std::string name;        ///< hf_name
  std::string subset{};    ///< hf_kwargs.name: a configuration of README.md; "": the default one
  std::string split{};     ///< Hugging Face's name of the split: train, test, ...
  std::string data_dir{};  ///< hf_kwargs.data_dir: a folder below `name`, or in place of a format
  std::map<std::string, std::vector<std::string>>
      data_files{};  ///< hf_kwargs.data_files: by split,
                     ///< paths with the wildcard *
};

/// The files, in order. Errors: no split, a split or file that does not exist, a name of the Hub.
[[nodiscard]] std::vector<std::filesystem::path> find_files(file_names const& names);

/// The splits that find_files finds in a folder, in the order of their names; `names.split` and
/// `names.data_files` play no part. Errors: no data, no such subset.
[[nodiscard]] std::vector<std::string> split_names(file_names const& names);

}  // namespace mpt::finetune
