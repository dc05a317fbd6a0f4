// attention_positions: how MPT applies positions to queries and keys before attention: by rotary
// positions, and by queries that grow with their position (`attn_temperature_tuning`).
#pragma once

#include <cstddef>
#include <cstdint>

#include <mpt/vocabulary.hpp>
#include <parallel/context/rotary_positions.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/head_layout.hpp>
#include <parallel/ops/temperature.hpp>

namespace mpt {

struct attention_positions {
  parallel::context_parallel::rotary_positions rotary;
  double temperature = 0.0;        // ops::temperature_options::scale; 0: queries do not grow
  double temperature_floor = 1.0;  // positions after which queries grow again

  template <class T, class Stream>
  void forward(parallel::context<Stream>& c, parallel::ops::head_layout const& heads,
               matrix_view<T> packed, index first) const {
    scale_queries(c, heads, packed, first);
    rotary.forward(c, heads, packed, first);
  }

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
    if (temperature == 0.0) return;
    auto const run = [&](matrix_view<T> rows, index length, index position, auto documents) {
      parallel::ops::temperature(c.stream, heads.q(rows),
                                 {.scale = temperature,
                                  .floor_scale = temperature_floor,
                                  .sequence = length,
                                  .first = position,
                                  .document_begins = documents});
    };
    if (c.share.whole == 0) return run(packed, c.sequence, first, c.document_begins);
    c.for_each_run(packed.extent(0),
                   [&](index row, index count, std::uint64_t sequence, index position) {
                     auto documents = c.document_begins;
                     auto const offset = (sequence - c.run_position.first_sequence) *
                                             static_cast<std::uint64_t>(c.share.whole) +
                                         static_cast<std::uint64_t>(position);
                     if (!documents.empty())
                       documents = documents.subspan(offset, static_cast<std::size_t>(count));
                     run(packed.slice(row, row + count), count, position, documents);
                   });
  }
};

}  // namespace mpt
