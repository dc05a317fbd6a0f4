// attention_positions: the ways in which MPT applies positions to queries and keys before
// attention: rotary positions, and a factor on queries that grows with their position
// (`attn_temperature_tuning`).
//
// And their constants: ALiBi slopes (Press, Smith, Lewis, 2022, section 3), as MPT computes
// them, and frequencies of rotary positions: frequency[i] = theta^(-2i/D), scaled as the
// configuration says. Linear scaling divides all frequencies by the factor. Llama 3.1's scaling
// divides only those of long wavelengths, which turn less than once in the sequence length of
// training, with a smooth transition. YaRN does so too, with a transition that is linear in the
// index i. LongRoPE divides each frequency by a factor of its own. The formulas are those of
// transformers' modeling_rope_utils, computed in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpt/config/model/attention.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/context_parallel/rotary_positions.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/attention/head_layout.hpp>
#include <parallel/ops/attention/rope.hpp>
#include <parallel/ops/attention/temperature.hpp>

namespace mpt {

struct attention_positions {
  parallel::context_parallel::rotary_positions rotary;
  double temperature_scale = 0.0;  ///< ops::temperature_options::scale; 0: queries are not scaled
  double temperature_floor_scale = 1.0;  ///< positions between two steps of the queries' factor

  /// Applies the positions to the queries and keys of `packed`, in place. `first` is the position
  /// of the first row of every sequence, which may grow to `length` positions.
  template <class T, class Stream>
  void forward(parallel::context<Stream>& c, parallel::ops::head_layout const& heads,
               matrix_view<T> packed, index first, index length) const {
    scale_queries(c, heads, packed, first);
    rotary.forward(c, heads, packed, first, length);
  }

  /// Turns the gradients of the results of forward() into those of its inputs, in place.
  template <class T, class Stream>
  void backward(parallel::context<Stream>& c, parallel::ops::head_layout const& heads,
                matrix_view<T> d_packed) const {
    rotary.backward(c, heads, d_packed);
    scale_queries(c, heads, d_packed, 0);
  }

 private:
  /// Multiplies queries, or their gradients, by the temperature of their positions.
  template <class T, class Stream>
  void scale_queries(parallel::context<Stream>& c, parallel::ops::head_layout const& heads,
                     matrix_view<T> packed, index first) const {
    if (temperature_scale == 0.0) return;
    auto const scale_rows = [&](matrix_view<T> rows, index length, index position, auto documents) {
      parallel::ops::temperature(c.stream, heads.q(rows),
                                 {.scale = temperature_scale,
                                  .floor_scale = temperature_floor_scale,
                                  .sequence = length,
                                  .first = position,
                                  .document_begins = documents});
    };
    if (c.share.whole == 0) return scale_rows(packed, c.sequence, first, c.document_begins);
    // document_begins lists the rows of whole sequences, also where this rank holds a part of each
    c.for_each_run(packed.extent(0),
                   [&](index row, index count, std::uint64_t sequence, index position) {
                     auto documents = c.document_begins;
                     auto const offset = (sequence - c.run_position.first_sequence) *
                                             static_cast<std::uint64_t>(c.share.whole) +
                                         static_cast<std::uint64_t>(position);
                     if (!documents.empty())
                       documents = documents.subspan(offset, static_cast<std::size_t>(count));
                     scale_rows(packed.slice(row, row + count), count, position, documents);
                   });
  }
};

/// Frequencies of the pairs of a head that are turned, in radians per position: head_dim / 2 of
/// them, or rotary_dim / 2.
[[nodiscard]] std::vector<double> rotary_frequencies(rope_config const& rope,
                                                     std::int64_t head_dim);

/// LongRoPE's frequencies of sequences longer than short_length; empty for other positions.
[[nodiscard]] std::vector<double> long_frequencies(rope_config const& rope, std::int64_t head_dim);

/// LongRoPE's number of positions trained on; 0 for other positions.
[[nodiscard]] std::int64_t short_length(rope_config const& rope);

/// LongRoPE's factor of the turned elements of queries and keys; 1 for other positions.
[[nodiscard]] double rotary_scale(rope_config const& rope);

/// xPos's logarithmic growth of the same pairs per position, ln((2i + 0.4 D) / 1.4 D) /
/// xpos_scale_base (Sun et al., 2022, with flash-attention's constants). It is negative: queries of
/// later positions are shorter and keys longer. Empty without xPos.
[[nodiscard]] std::vector<double> rotary_growths(rope_config const& rope, std::int64_t head_dim);

/// One slope per head. With H2 the next power of two at or above `heads`, slope_i =
/// 2^(-i·bias_max/H2) for i = 1..H2. When H2 differs from `heads`, the slopes at even i come first,
/// then those at odd i, and the first `heads` of them are used.
[[nodiscard]] std::vector<float> alibi_slopes(int heads, double bias_max);

}  // namespace mpt
