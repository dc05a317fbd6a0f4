// The lengths that the rows of a run's training batches may have.
#pragma once

#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// The number of which the length of every trimmed row is a multiple. It is a multiple of 8, which
/// bounds the number of shapes in a run, and of the number of parts into which ranks divide a row.
/// The rounding to this number is the only difference from LLM Foundry's pad_to_longest.
[[nodiscard]] index row_granule(parallelism_config const& parallelism);

/// Whether training rows are trimmed to the length that a batch needs.
[[nodiscard]] bool trims_rows(data_config const& data);

/// The possible row lengths, the longest first.
[[nodiscard]] std::vector<index> row_lengths(data_config const& data,
                                             parallelism_config const& parallelism);

}  // namespace mpt
