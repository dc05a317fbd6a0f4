// shared_reading: ranks that have one part of the data between them read it once.
//
// Ranks along the tensor, context and pipeline axes train on the same rows. The first of them reads
// and decompresses, and sends the others what a step needs: ids, labels, where documents begin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mpt/finetune/rows.hpp>
#include <mpt/train/sequences.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// What read() gives on the first rank of `comm`, whole sequences or none, on all of them; nobody
/// else reads. Collective. Cost: two broadcasts, of 32 bytes and of the rows.
template <class Read>
[[nodiscard]] std::optional<sequences> read_on_first(parallel::any_communicator& comm,
                                                     parallel::host::stream& s, Read&& read) {
  std::optional<sequences> own;
  finetune::rows rows;
  if (comm.rank() == 0) {
    own = read();
    if (own) rows = own->rows();
  }
  std::array<std::int64_t, 4> size{own ? 1 : 0, static_cast<std::int64_t>(rows.length),
                                   static_cast<std::int64_t>(rows.ids.size()),
                                   static_cast<std::int64_t>(rows.document_begins.size())};
  comm.broadcast(s, std::span<std::int64_t>(size), 0).wait();
  if (size[0] == 0) return std::nullopt;
  std::array<std::vector<std::int32_t>*, 3> const parts{&rows.ids, &rows.labels,
                                                        &rows.document_begins};
  std::vector<std::int32_t> all;
  for (auto const* const part : parts) all.insert(all.end(), part->begin(), part->end());
  all.resize(static_cast<std::size_t>(2 * size[2] + size[3]));
  if (!all.empty()) comm.broadcast(s, std::span<std::int32_t>(all), 0).wait();
  if (own) return own;
  rows.length = static_cast<std::size_t>(size[1]);
  auto at = all.begin();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto const end = at + static_cast<std::ptrdiff_t>(size[i < 2 ? 2 : 3]);
    parts[i]->assign(std::exchange(at, end), end);
  }
  return sequences(std::move(rows));
}

}  // namespace mpt
