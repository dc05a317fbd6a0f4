// The tables of kernels/attention/document_tables.hpp on a stream, their memory, and the number of
// documents that they are made for.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <parallel/core/packed_documents.hpp>
#include <parallel/ops/cuda/kernels/attention/document_tables.hpp>

namespace parallel::cuda {

class stream;

/// Enqueues the kernel that makes the tables. ParallelLM::kernels defines it.
void make_document_tables(stream& s, kernels::document_tables const& tables);

/// The largest number of documents for which there may be tables, for a number of tokens: if the
/// mean document is shorter than min_mean_length, documents are not worth separate sequences.
[[nodiscard]] constexpr index max_documents(index tokens) {
  constexpr index min_mean_length = 8;
  auto const bound = static_cast<std::uint64_t>(std::max<index>(1, tokens / min_mean_length));
  return static_cast<index>(std::bit_floor(bound));
}

/// The number of documents for which tables are made if there are `count`: a power of two, so that
/// batches differ in few ways; 0 if the documents were not counted or are too many.
[[nodiscard]] constexpr index document_bound(index count, index tokens) {
  if (count <= 0 || count > max_documents(tokens)) return 0;
  return static_cast<index>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

/// Tables begin at multiples of 16 bytes. The table of offsets has two entries more than documents:
/// the end of the last document, and one more.
[[nodiscard]] constexpr std::size_t lengths_bytes(index documents) {
  return (static_cast<std::size_t>(documents) * sizeof(std::int32_t) + 15) / 16 * 16;
}
/// The bytes of one table of offsets.
[[nodiscard]] constexpr std::size_t offsets_bytes(index documents) {
  return (static_cast<std::size_t>(documents + 2) * sizeof(std::int64_t) + 15) / 16 * 16;
}
/// The bytes of the lengths and of `tables` tables of offsets.
[[nodiscard]] constexpr std::size_t document_tables_bytes(index documents, int tables) {
  return lengths_bytes(documents) + static_cast<std::size_t>(tables) * offsets_bytes(documents);
}

/// Scratch in addition to the tables, for the plan's own workspace (448 bytes per document were
/// observed).
[[nodiscard]] constexpr std::size_t document_plan_reserve(index documents) {
  return 512 * static_cast<std::size_t>(documents) + 4096;
}

}  // namespace parallel::cuda
