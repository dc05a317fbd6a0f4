// The sub-communicators of a split: the first step of every backend's split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>

namespace parallel::detail {

/// Exchanges each rank's color between all ranks, all of which must call it. Blocks.
[[nodiscard]] inline std::vector<int> exchange_colors(signature_exchange const& exchange,
                                                      coloring const& colors, int rank) {
  int const own_color = colors.color_of(rank);
  require(own_color >= 0, "split: the color must not be negative, but is ", own_color);
  std::vector<int> out;
  for (auto const& signature : exchange({.kind = operation_kind::split, .peer = own_color}))
    out.push_back(signature.peer);
  return out;
}

/// Each rank's color. If `colors` does not know them, they are exchanged by open_exchange().
template <class Open>
[[nodiscard]] std::vector<int> colors_of(coloring const& colors, int rank, int ranks,
                                         Open open_exchange) {
  if (!colors.is_known()) return exchange_colors(open_exchange(), colors, rank);
  std::vector<int> all_colors;
  for (int r = 0; r < ranks; ++r) {
    all_colors.push_back(colors.color_of(r));
    require(all_colors.back() >= 0, "split: the color must not be negative, but is ",
            all_colors.back(), " for rank ", r);
  }
  return all_colors;
}

/// The number of a communicator's split, the same on all ranks, from the number of its splits with
/// known colors and of its exchanges so far. Splits with known colors exchange nothing and are
/// counted separately.
[[nodiscard]] inline std::uint64_t split_number(coloring const& colors, std::uint64_t& splits,
                                                std::uint64_t exchanges) {
  return colors.is_known() ? 2 * splits++ + 1 : 2 * exchanges;
}

struct subgroup {
  std::vector<int> ranks = {};    // ranks of the communicator that is split, ascending
  int rank = 0;                   // position of this rank in `ranks`
  int color = 0;
};

[[nodiscard]] inline subgroup subgroup_of(std::vector<int> const& colors, int rank) {
  subgroup out{.color = colors[static_cast<std::size_t>(rank)]};
  for (std::size_t r = 0; r < colors.size(); ++r) {
    if (colors[r] != out.color) continue;
    if (static_cast<int>(r) == rank) out.rank = static_cast<int>(out.ranks.size());
    out.ranks.push_back(static_cast<int>(r));
  }
  return out;
}

}  // namespace parallel::detail
