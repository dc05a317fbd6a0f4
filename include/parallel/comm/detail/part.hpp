// Who belongs to which part when a communicator is split: what all backends' split begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/comm/signature_exchange.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

struct part {
  std::vector<int> members;  // ranks of the whole, ascending
  int rank = 0;              // of this rank among them
};

/// Exchanges colors between all ranks, which must all come. Blocks.
[[nodiscard]] inline part part_of(signature_exchange const& exchange, int color, int rank) {
  require(color >= 0, "split: the color must not be negative, but is ", color);
  auto const all = exchange({.kind = operation_kind::split, .peer = color});
  part out;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].peer != color) continue;
    if (static_cast<int>(r) == rank) out.rank = static_cast<int>(out.members.size());
    out.members.push_back(static_cast<int>(r));
  }
  return out;
}

}  // namespace parallel::detail
