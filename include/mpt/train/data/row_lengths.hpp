// The lengths that the rows of a run's training batches may have.
#pragma once

#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// The lengths of trimmed rows are multiples of this number: of 8, which bounds the number of
/// shapes in a run, and of the number of parts into which ranks divide rows. This is the only
/// difference from LLM Foundry's pad_to_longest.
[[nodiscard]] index row_granule(train_config const& config);

/// Whether training rows are trimmed to the length that a batch needs.
[[nodiscard]] bool trims_rows(train_config const& config);

/// The possible row lengths, the longest first.
[[nodiscard]] std::vector<index> row_lengths(train_config const& config);

}  // namespace mpt
