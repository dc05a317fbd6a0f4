// shared_reading: ranks that train on the same rows read them once.
//
// Ranks along the tensor, context and pipeline axes train on the same rows. The first of these
// ranks reads and decompresses, and sends the others what a step needs: ids, labels and the
// beginnings of documents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mpt/finetune/rows.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// Calls read() on the first rank of `comm` only and returns its result, whole sequences or
/// nothing, on all ranks. Collective. Cost: two broadcasts, of 32 bytes and of the rows.
template <class Read>
[[nodiscard]] std::optional<sequences> read_on_first(parallel::any_communicator& comm,
                                                     parallel::host::stream& exchanges,
                                                     Read&& read) {
  std::optional<sequences> batch;
  finetune::rows rows;
  if (comm.rank() == 0) {
    batch = read();
    if (batch) rows = batch->rows();
  }
  std::array<std::int64_t, 4> size{batch ? 1 : 0, static_cast<std::int64_t>(rows.length),
                                   static_cast<std::int64_t>(rows.ids.size()),
                                   static_cast<std::int64_t>(rows.document_begins.size())};
  comm.broadcast(exchanges, std::span<std::int64_t>(size), 0).wait();
  if (size[0] == 0) return std::nullopt;
  std::array<std::vector<std::int32_t>*, 3> const parts{&rows.ids, &rows.labels,
                                                        &rows.document_begins};
  std::vector<std::int32_t> packed;
  for (auto const* const part : parts) packed.insert(packed.end(), part->begin(), part->end());
  packed.resize(static_cast<std::size_t>(2 * size[2] + size[3]));
  if (!packed.empty()) comm.broadcast(exchanges, std::span<std::int32_t>(packed), 0).wait();
  if (batch) return batch;
  rows.length = static_cast<std::size_t>(size[1]);
  auto cursor = packed.begin();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto const end = cursor + static_cast<std::ptrdiff_t>(size[i < 2 ? 2 : 3]);
    parts[i]->assign(std::exchange(cursor, end), end);
  }
  return sequences(std::move(rows));
}

}  // namespace mpt
