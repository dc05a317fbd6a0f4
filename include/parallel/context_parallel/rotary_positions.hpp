// rotary_positions: rotates queries and keys by their positions (Su et al., "RoFormer", 2021). The
// positions are those of whole sequences, whichever part of them this rank holds.
#pragma once

#include <vector>

#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/attention/head_layout.hpp>
#include <parallel/ops/attention/rope.hpp>

namespace parallel::context_parallel {

/// The encoding that `attention` applies to packed queries and keys. The default does nothing.
struct rotary_positions {
  std::vector<double> frequencies = {};  ///< one per pair of a head, radians a position
  std::vector<double> growths = {};      ///< growth of queries, decay of keys (xPos); empty: none
  index origin = 0;                      ///< the position at which neither changes
  double scale = 1.0;                    ///< of the turned elements (LongRoPE)
  /// The frequencies of sequences of more than `short_length` positions; empty: the same.
  std::vector<double> long_frequencies = {};
  index short_length = 0;

  /// Rotates rows packed as `heads` states (without keys where these belong to another layer) in
  /// place. In each local run of a sequence their positions begin at `first`; the sequence may grow
  /// to `length` positions.
  template <class T, class Stream>
  void forward(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> packed,
               index first, index length = 0) const {
    rotate(c, heads, packed, first, length, ops::rope);
  }

  /// Turns the gradient of the rotated rows into that of the original rows, in place.
  template <class T, class Stream>
  void backward(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> d_packed) const {
    rotate(c, heads, d_packed, 0, c.whole_sequence(), ops::rope_backward);
  }

 private:
  template <class T, class Stream, class Rope>
  void rotate(context<Stream>& c, ops::head_layout const& heads, matrix_view<T> packed, index first,
              index length, Rope const& rope) const {
    if (frequencies.empty()) return;
    index const count = c.sequence / c.share.runs;
    bool const is_long = !long_frequencies.empty() && length > short_length;
    for (int i = 0; i < c.share.runs; ++i) {  // a run of local positions of every sequence
      auto const rotate_run = [&](ops::rows_view<T> rows, double growth_sign) {
        rope(c.stream, heads.split(rows, c.sequence).slice(i * count, (i + 1) * count),
             {.frequencies = is_long ? long_frequencies : frequencies,
              .first = first + c.share.starts[static_cast<std::size_t>(i)],
              .growths = growths,
              .origin = origin,
              .growth_sign = growth_sign,
              .scale = scale});
      };
      if (growths.empty()) {
        rotate_run(heads.qk(packed), 1.0);
      } else {
        rotate_run(heads.q(packed), 1.0);
        if (heads.kv_heads > 0) rotate_run(heads.k(packed), -1.0);
      }
    }
  }
};

}  // namespace parallel::context_parallel
