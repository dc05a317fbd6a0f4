// The tables of kernels/document_tables.hpp on a stream, how much memory they take, and for how
// many documents they are made.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <parallel/core/packed_documents.hpp>
#include <parallel/ops/cuda/kernels/document_tables.hpp>

namespace parallel::cuda {

class stream;

/// Enqueues them. ParallelLM::kernels has it.
void make_document_tables(stream& s, kernels::document_tables const& tables);

/// For how many documents there may be tables of so many tokens: documents that are shorter in the
/// mean are not worth one each.
[[nodiscard]] constexpr index most_documents(index tokens) {
  constexpr index shortest = 8;
  auto const most = static_cast<std::uint64_t>(std::max<index>(1, tokens / shortest));
  return static_cast<index>(std::bit_floor(most));
}

/// For how many tables are made, where there are `count`: a power of two, so that batches differ in
/// few ways; 0 where they were not counted or are too many.
[[nodiscard]] constexpr index document_bound(index count, index tokens) {
  if (count <= 0 || count > most_documents(tokens)) return 0;
  return static_cast<index>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

/// Tables begin at multiples of 16 bytes. That of offsets has one more than where the last ends.
[[nodiscard]] constexpr std::size_t lengths_bytes(index documents) {
  return (static_cast<std::size_t>(documents) * sizeof(std::int32_t) + 15) / 16 * 16;
}
[[nodiscard]] constexpr std::size_t offsets_bytes(index documents) {
  return (static_cast<std::size_t>(documents + 2) * sizeof(std::int64_t) + 15) / 16 * 16;
}
[[nodiscard]] constexpr std::size_t document_tables_bytes(index documents, int tables) {
  return lengths_bytes(documents) + static_cast<std::size_t>(tables) * offsets_bytes(documents);
}

/// Beside them, for what a plan of so many documents asks for itself (seen: 448 bytes for each).
[[nodiscard]] constexpr std::size_t document_room(index documents) {
  return 512 * static_cast<std::size_t>(documents) + 4096;
}

}  // namespace parallel::cuda
