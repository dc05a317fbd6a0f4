// Who belongs to which part when a communicator is split: what all backends' split begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/signature_exchange.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

/// Each rank's color, exchanged between all ranks, which must all come. Blocks.
[[nodiscard]] inline std::vector<int> exchanged_colors(signature_exchange const& exchange,
                                                       coloring const& by, int rank) {
  int const mine = by.of(rank);
  require(mine >= 0, "split: the color must not be negative, but is ", mine);
  std::vector<int> out;
  for (auto const& theirs : exchange({.kind = operation_kind::split, .peer = mine}))
    out.push_back(theirs.peer);
  return out;
}

/// Each rank's color. Where `by` does not know them it is as above, by what open_exchange() gives.
template <class Open>
[[nodiscard]] std::vector<int> colors_of(coloring const& by, int rank, int ranks,
                                         Open open_exchange) {
  if (!by.is_known()) return exchanged_colors(open_exchange(), by, rank);
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r) {
    out.push_back(by.of(r));
    require(out.back() >= 0, "split: the color must not be negative, but is ", out.back(),
            " for rank ", r);
  }
  return out;
}

/// Which of a communicator's splits this is, the same number on all ranks, given how many splits of
/// known colors and how many exchanges it has had: the former exchange nothing, and count apart.
[[nodiscard]] inline std::uint64_t split_number(coloring const& by, std::uint64_t& splits,
                                                std::uint64_t exchanges) {
  return by.is_known() ? 2 * splits++ + 1 : 2 * exchanges;
}

struct part {
  std::vector<int> members = {};  // ranks of the whole, ascending
  int rank = 0;                   // of this rank among them
  int color = 0;
};

[[nodiscard]] inline part part_of(std::vector<int> const& colors, int rank) {
  part out{.color = colors[static_cast<std::size_t>(rank)]};
  for (std::size_t r = 0; r < colors.size(); ++r) {
    if (colors[r] != out.color) continue;
    if (static_cast<int>(r) == rank) out.rank = static_cast<int>(out.members.size());
    out.members.push_back(static_cast<int>(r));
  }
  return out;
}

}  // namespace parallel::detail
