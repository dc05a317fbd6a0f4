// batch_summary: the part of a global batch that a rank gives a step, in a few numbers that ranks
// with the same part can compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/tensor.hpp>

namespace parallel::train {

struct batch_summary {
  std::int64_t rows = 0;            // total over all microbatches
  std::int64_t first_sequence = 0;  // of the first microbatch
  std::uint64_t hash = 0;           // of each microbatch's rows and first sequence

  friend bool operator==(batch_summary const&, batch_summary const&) = default;
};

/// The summary of microbatches of `model`; `first_sequences`: one for each, or none.
template <class Model>
[[nodiscard]] batch_summary summary_of(Model const& model,
                                       std::span<typename Model::microbatch const> batches,
                                       std::span<index const> first_sequences) {
  batch_summary out;
  auto const add = [&](index number) {
    out.hash = (out.hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ULL;
    out.hash ^= out.hash >> 32;
  };
  for (std::size_t i = 0; i < batches.size(); ++i) {
    index const rows = model.rows(batches[i]);
    index const first = first_sequences.empty() || rows == 0 ? 0 : first_sequences[i];
    if (i == 0) out.first_sequence = first;
    out.rows += rows;
    add(rows + 1);
    add(first + 1);
  }
  return out;
}

}  // namespace parallel::train
