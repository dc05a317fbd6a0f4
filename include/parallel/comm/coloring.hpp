// coloring: which part each rank of a communicator belongs to when it is split.
//
//   comm.split(color)                                       each rank gives its own
//   comm.split(coloring([](int rank) { return rank / 4; })) every rank knows all
//
// Ranks of one color make up a part, in the order of their ranks. Colors that every rank can tell,
// from a layout's coordinates say, need not be exchanged.
#pragma once

#include <concepts>
#include <functional>
#include <utility>

#include <parallel/core/config.hpp>

namespace parallel {

class coloring {
 public:
  /// Of this rank; the others give theirs. At least 0.
  coloring(int mine) : mine_(mine) {}

  /// color_of(rank), at least 0 and on all ranks the same function, for any rank of the whole.
  template <class ColorOf>
  requires std::invocable<ColorOf const&, int>
  explicit coloring(ColorOf color_of) : color_of_(std::move(color_of)) {}

  /// All ranks together: the part is the whole once more, with calls of its own.
  [[nodiscard]] static coloring together() {
    return coloring([](int) { return 0; });
  }

  /// Whether every rank knows the colors of all.
  [[nodiscard]] bool is_known() const { return static_cast<bool>(color_of_); }
  /// Of `rank`: this one, unless the colors of all are known.
  [[nodiscard]] int of(int rank) const { return is_known() ? color_of_(rank) : mine_; }

 private:
  int mine_ = 0;
  std::function<int(int)> color_of_;
};

}  // namespace parallel
