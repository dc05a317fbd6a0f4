// through_host: runs an exchange of memory that the CPU cannot reach, on a backend that sends only
// host memory: each chunk is copied to the host, exchanged, and copied back.
//
// While one chunk is exchanged, the next one is copied to the host and the previous one is copied
// back. The chunks use slots in memory that the data_mover keeps (pinned, on a GPU), whatever the
// size of an operation; all ranks cut an operation alike, at multiples of their number.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/comm/detail/exchange_mover.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

/// Bytes of host memory in which a stream's exchanges are staged: two chunks of input and two of
/// output. The same on every rank, since it determines the chunks.
inline constexpr std::size_t staging_bytes = std::size_t{16} << 20;

/// The number of elements that an operation of `ranks` ranks reads and writes, as multiples of
/// operation::count.
struct operation_shards {
  std::size_t in = 0;
  std::size_t out = 0;
};
[[nodiscard]] constexpr operation_shards shards_of(operation_kind kind, std::size_t ranks) {
  switch (kind) {
    case operation_kind::all_reduce:
    case operation_kind::broadcast: return {1, 1};
    case operation_kind::reduce_scatter: return {ranks, 1};
    case operation_kind::all_gather: return {1, ranks};
    case operation_kind::all_to_all: return {ranks, ranks};
    case operation_kind::send: return {1, 0};
    case operation_kind::recv: return {0, 1};
    case operation_kind::barrier:
    case operation_kind::split:
    case operation_kind::group:
    case operation_kind::agreement: break;
  }
  return {};
}

/// An operation cut into chunks of elements, with the slots in which they are staged.
class staged_operation {
 public:
  staged_operation(exchange_mover const& mover, operation const& op, std::size_t ranks)
      : mover_(mover),
        op_(op),
        shards_(shards_of(op.kind, ranks)),
        in_width_(size_of(op.type)),
        out_width_(size_of(op.out_type())),
        max_count_(slot_bytes / std::max(shards_.in * in_width_, shards_.out * out_width_)) {
    require(max_count_ > 0, "an exchange between ", ranks, " ranks does not fit the ",
            staging_bytes, " bytes that it is staged in");
    if (max_count_ > ranks) max_count_ -= max_count_ % ranks;
    slots_ = mover.staging(staging_bytes);
  }

  /// The number of chunks, at least one; a chunk may be empty.
  [[nodiscard]] std::size_t chunks() const {
    return std::max<std::size_t>(1, (op_.count + max_count_ - 1) / max_count_);
  }
  [[nodiscard]] operation chunk_operation(std::size_t chunk) const {
    operation out = op_;
    out.count = count(chunk);
    out.in = slot(0, chunk);
    out.out = slot(1, chunk);
    return out;
  }
  /// Starts the copies of a chunk's input to the host, and of its output back.
  void copy_in(std::size_t chunk) const {
    auto const* const source = static_cast<std::byte const*>(op_.in);
    for (std::size_t s = 0; s < shards_.in; ++s)
      mover_.copy(slot(0, chunk) + s * count(chunk) * in_width_,
                  source + (s * op_.count + chunk * max_count_) * in_width_,
                  count(chunk) * in_width_);
  }
  void copy_out(std::size_t chunk) const {
    auto* const target = static_cast<std::byte*>(op_.out);
    for (std::size_t s = 0; s < shards_.out; ++s)
      mover_.copy(target + (s * op_.count + chunk * max_count_) * out_width_,
                  slot(1, chunk) + s * count(chunk) * out_width_, count(chunk) * out_width_);
  }

 private:
  static constexpr std::size_t slot_bytes = staging_bytes / 4;

  [[nodiscard]] std::size_t count(std::size_t chunk) const {
    return std::min(max_count_, op_.count - std::min(op_.count, chunk * max_count_));
  }
  [[nodiscard]] std::byte* slot(std::size_t written, std::size_t chunk) const {
    return slots_ + (2 * written + chunk % 2) * slot_bytes;
  }

  exchange_mover const& mover_;
  operation const& op_;
  operation_shards shards_;
  std::size_t in_width_, out_width_;
  std::size_t max_count_;  // elements of a chunk
  std::byte* slots_ = nullptr;
};

/// Calls run(op), or with a data_mover run(chunk operation on copies in host memory) for each
/// chunk, in order.
template <class Run>
void through_host(exchange_mover const& mover, operation const& op, int ranks, Run&& run) {
  auto const rank_count = static_cast<std::size_t>(ranks);
  auto const shards = shards_of(op.kind, rank_count);
  if (mover.is_cpu() || shards.in + shards.out == 0) return run(op);
  staged_operation const staged(mover, op, rank_count);
  std::size_t const chunks = staged.chunks();
  staged.copy_in(0);
  mover.finish();
  for (std::size_t k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) staged.copy_in(k + 1);
    if (k > 0) staged.copy_out(k - 1);
    try {
      run(staged.chunk_operation(k));
    } catch (...) {
      mover.finish();  // the caller may free the memory that is being copied
      throw;
    }
    mover.finish();
  }
  staged.copy_out(chunks - 1);
  mover.finish();
}

}  // namespace parallel::detail
