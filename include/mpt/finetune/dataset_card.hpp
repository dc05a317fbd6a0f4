// What the README.md of a data folder says of its files, as on the Hugging Face Hub: `configs` in
// the YAML header, each with the files of its splits.
//
//   ---
//   configs:
//   - config_name: default
//     data_files:
//     - split: train
//       path: "data/train-*"
//   ---
//
// Hugging Face datasets goes by it before it looks at names of files. Only `configs` is parsed.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::finetune {

/// One configuration of a data set.
struct card_config {
  std::string name;
  bool is_default = false;
  std::string data_dir{};  ///< where its files lie in the folder; "": the folder itself
  std::map<std::string, std::vector<std::string>> data_files{};  ///< by split, below data_dir;
                                                                 ///< paths which may have *
};

/// The configuration by which datasets reads `folder` when none is named: the only one, the one
/// named default, or the one that says so. Nothing where README.md is absent or names none. Error:
/// several, none of which is that; a header that is not as it should be.
[[nodiscard]] std::optional<card_config> read_dataset_card(std::filesystem::path const& folder);

}  // namespace mpt::finetune
