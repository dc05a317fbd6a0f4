// named_split: the names by which LLM Foundry's convert_dataset_hf.py asks for splits of C4 and The
// Pile. A small split is the beginning of a whole one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mpt::data {

struct named_split {
  std::string split;  ///< the data set's own name of the split, such as validation
  std::optional<std::uint64_t> max_samples{};  ///< the number of samples after which it ends
};

/// The split that `name` asks for: one of `available`, the data set's own; else train_small (the
/// first 100 000 samples of train), val, val_small (10 000 of validation), val_xsmall (3 000) or
/// val_xxsmall (100). Throws where `set`, which errors name, has no such split.
[[nodiscard]] named_split find_named_split(std::string const& name,
                                           std::span<std::string const> available,
                                           std::string const& set);

}  // namespace mpt::data
