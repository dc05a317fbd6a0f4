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

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>
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

}  // namespace mpt::finetune
