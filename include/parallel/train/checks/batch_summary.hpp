// batch_summary: a few numbers that describe a rank's part of a global batch, so that ranks which
// must train on the same part can compare them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/tensor.hpp>

namespace parallel::train {

struct batch_summary {
  std::int64_t rows = 0;            // total over all microbatches
  std::int64_t first_sequence = 0;  // the first sequence of the first microbatch
  std::uint64_t hash = 0;           // combines the rows and first sequence of every microbatch

  friend bool operator==(batch_summary const&, batch_summary const&) = default;
};

/// Summarises microbatches of `model`. `first_sequences`: one number for each microbatch, or empty.
template <class Model>
[[nodiscard]] batch_summary summarise_batch(Model const& model,
                                            std::span<typename Model::microbatch const> batches,
                                            std::span<index const> first_sequences) {
  batch_summary out;
  auto const add_to_hash = [&](index number) {
    out.hash = (out.hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ULL;
    out.hash ^= out.hash >> 32;
  };
  for (std::size_t i = 0; i < batches.size(); ++i) {
    index const rows = model.rows(batches[i]);
    index const first = first_sequences.empty() || rows == 0 ? 0 : first_sequences[i];
    if (i == 0) out.first_sequence = first;
    out.rows += rows;
    add_to_hash(rows + 1);
    add_to_hash(first + 1);
  }
  return out;
}

}  // namespace parallel::train
