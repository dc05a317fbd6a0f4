// through_host: an exchange of memory that the CPU cannot reach, by a backend that sends only what
// it can: copied to the host, exchanged, and copied back, a chunk after the other.
//
// While a chunk is exchanged the next one is on its way to the host and the one before on its way
// back. Chunks have places in memory that the mover keeps (pinned, on a GPU), however long an
// operation is; ranks cut an operation alike, at multiples of their number.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/comm/detail/moving.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

/// Bytes of the host that a stream's exchanges are staged in: two chunks of what is read, and two
/// of what is written. The same on every rank, since chunks follow from it.
inline constexpr std::size_t staging_bytes = std::size_t{16} << 20;

/// How many times `operation::count` elements an operation reads and writes in a group of `ranks`.
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

/// An operation in chunks of elements, and where they are staged.
class staged_operation {
 public:
  staged_operation(moving const& mover, operation const& op, std::size_t ranks)
      : mover_(mover),
        op_(op),
        shards_(shards_of(op.kind, ranks)),
        in_width_(size_of(op.type)),
        out_width_(size_of(op.out_type())),
        most_(place_bytes / std::max(shards_.in * in_width_, shards_.out * out_width_)) {
    require(most_ > 0, "an exchange between ", ranks, " ranks does not fit the ", staging_bytes,
            " bytes that it is staged in");
    if (most_ > ranks) most_ -= most_ % ranks;
    places_ = mover.staging(staging_bytes);
  }

  /// At least one, which may be empty.
  [[nodiscard]] std::size_t chunks() const {
    return std::max<std::size_t>(1, (op_.count + most_ - 1) / most_);
  }
  /// The operation on a chunk's places.
  [[nodiscard]] operation of(std::size_t chunk) const {
    operation out = op_;
    out.count = count(chunk);
    out.in = place(0, chunk);
    out.out = place(1, chunk);
    return out;
  }
  /// Asks for the copies of what a chunk reads, and of what it has written.
  void fetch(std::size_t chunk) const {
    auto const* const from = static_cast<std::byte const*>(op_.in);
    for (std::size_t s = 0; s < shards_.in; ++s)
      mover_.copy(place(0, chunk) + s * count(chunk) * in_width_,
                  from + (s * op_.count + chunk * most_) * in_width_, count(chunk) * in_width_);
  }
  void bring_back(std::size_t chunk) const {
    auto* const to = static_cast<std::byte*>(op_.out);
    for (std::size_t s = 0; s < shards_.out; ++s)
      mover_.copy(to + (s * op_.count + chunk * most_) * out_width_,
                  place(1, chunk) + s * count(chunk) * out_width_, count(chunk) * out_width_);
  }

 private:
  static constexpr std::size_t place_bytes = staging_bytes / 4;

  [[nodiscard]] std::size_t count(std::size_t chunk) const {
    return std::min(most_, op_.count - std::min(op_.count, chunk * most_));
  }
  [[nodiscard]] std::byte* place(std::size_t written, std::size_t chunk) const {
    return places_ + (2 * written + chunk % 2) * place_bytes;
  }

  moving const& mover_;
  operation const& op_;
  operation_shards shards_;
  std::size_t in_width_, out_width_;
  std::size_t most_;  // elements of a chunk
  std::byte* places_ = nullptr;
};

/// Calls run(op), or with a mover run(a part of the operation on copies in host memory) for all
/// parts in their order.
template <class Run>
void through_host(moving const& mover, operation const& op, int ranks, Run&& run) {
  auto const group = static_cast<std::size_t>(ranks);
  auto const shards = shards_of(op.kind, group);
  if (mover.by_the_cpu() || shards.in + shards.out == 0) return run(op);
  staged_operation const staged(mover, op, group);
  std::size_t const chunks = staged.chunks();
  staged.fetch(0);
  mover.finish();
  for (std::size_t k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) staged.fetch(k + 1);
    if (k > 0) staged.bring_back(k - 1);
    try {
      run(staged.of(k));
    } catch (...) {
      mover.finish();  // whoever learns of it may free what is being copied
      throw;
    }
    mover.finish();
  }
  staged.bring_back(chunks - 1);
  mover.finish();
}

}  // namespace parallel::detail
