// rotary_positions: queries and keys turned by their positions before they meet (Su et al.,
// "RoFormer", 2021), at positions of whole sequences whatever part of them is here.
#pragma once

#include <vector>

#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/head_layout.hpp>
#include <parallel/ops/rope.hpp>

namespace parallel::context_parallel {

/// What `attention` does with packed queries and keys before it attends. Nothing set: nothing.
struct rotary_positions {
  std::vector<double> frequencies = {};  // one per pair of a head, radians a position
  std::vector<double> growths = {};      // by which queries grow and keys shrink (xPos); empty: not
  index origin = 0;                      // the position at which neither does

  /// Turns rows packed as `heads` says (without keys where these are of another layer), of
  /// positions from `first` on in each run of a sequence that is here, in place.
  template <class T, class Stream>
  void forward(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> packed,
               index first) const {
    turn(c, heads, packed, first, ops::rope);
  }

  /// The gradient by what was turned becomes that by what it was, in place.
  template <class T, class Stream>
  void backward(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> d_packed) const {
    turn(c, heads, d_packed, 0, ops::rope_backward);
  }

 private:
  template <class T, class Stream, class Rope>
  void turn(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> packed, index first,
            Rope const& rope) const {
    if (frequencies.empty()) return;
    index const count = c.sequence / c.share.runs;
    for (int i = 0; i < c.share.runs; ++i) {  // positions that are here of every sequence
      auto const run = [&](ops::rows_view<T> rows, double growth_sign) {
        rope(c.stream, heads.split(rows, c.sequence).slice(i * count, (i + 1) * count),
             {.frequencies = frequencies,
              .first = first + c.share.starts[static_cast<std::size_t>(i)],
              .growths = growths,
              .origin = origin,
              .growth_sign = growth_sign});
      };
      if (growths.empty()) {
        run(heads.qk(packed), 1.0);
      } else {
        run(heads.q(packed), 1.0);
        if (heads.kv_heads > 0) run(heads.k(packed), -1.0);
      }
    }
  }
};

}  // namespace parallel::context_parallel
