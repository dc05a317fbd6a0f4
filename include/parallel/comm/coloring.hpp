// coloring: which sub-communicator each rank of a communicator belongs to when it is split.
//
//   comm.split(color)                                       each rank gives its own color
//   comm.split(coloring([](int rank) { return rank / 4; })) every rank knows all colors
//
// Ranks of one color form a sub-communicator, in the order of their ranks. Colors that every rank
// can compute, for example from the coordinates of a layout, need not be exchanged.
#pragma once

#include <concepts>
#include <functional>
#include <utility>

#include <parallel/core/config.hpp>

namespace parallel {

class coloring {
 public:
  /// The color of this rank, at least 0; the other ranks give theirs.
  coloring(int own_color) : own_color_(own_color) {}

  /// color_of(rank) is at least 0 and the same function on all ranks; it is called for any rank.
  template <class ColorOf>
  requires std::invocable<ColorOf const&, int>
  explicit coloring(ColorOf color_of) : color_of_(std::move(color_of)) {}

  /// One color for all ranks: the sub-communicator has all ranks, and its own calls.
  [[nodiscard]] static coloring single_color() {
    return coloring([](int) { return 0; });
  }

  /// Whether this rank knows the colors of all ranks.
  [[nodiscard]] bool is_known() const { return static_cast<bool>(color_of_); }
  /// The color of `rank`, which is this rank unless is_known().
  [[nodiscard]] int color_of(int rank) const { return is_known() ? color_of_(rank) : own_color_; }

 private:
  int own_color_ = 0;
  std::function<int(int)> color_of_;
};

}  // namespace parallel
