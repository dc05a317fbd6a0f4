// rope on the host: parallel over rows; sines and cosines are computed once a row, heads in SIMD.
#pragma once

#include <algorithm>
#include <cmath>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/attention/rope.hpp>
#include <parallel/ops/host/blocks.hpp>

namespace parallel::host {

namespace detail {

/// Cosines and sines of a row.
struct angles {
  angles(arena& memory, index pairs) : cosines(memory, pairs), sines(memory, pairs) {}
  scratch<float> cosines, sines;
};

/// Rotates the heads of one row by the angles with these cosines and sines.
template <int Lanes, class T>
[[gnu::always_inline]] inline void rotate_heads(ops::heads_view<T> const& x, index b, index s,
                                                index pairs, float const* cosines,
                                                float const* sines) {
  for (index h = 0; h < x.heads; ++h) {
    T* const row = x.row(b, s, h);
    for (index i = 0; i < pairs; i += Lanes) {
      index const left = pairs - i;
      auto const low = simd::load_partial<Lanes>(row + i, left);
      auto const high = simd::load_partial<Lanes>(row + pairs + i, left);
      auto const cosine = simd::load_partial<Lanes>(cosines + i, left);
      auto const sine = simd::load_partial<Lanes>(sines + i, left);
      simd::store_partial(row + i, simd::fma(-high, sine, low * cosine), left);
      simd::store_partial(row + pairs + i, simd::fma(low, sine, high * cosine), left);
    }
  }
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::rope_arguments<T> const& a) {
  s.enqueue({a.name}, [=, &s] {
    if constexpr (simd_element<T>) {
      index const pairs = a.options.pairs();
      index const rows = a.x.batch * a.x.sequence;
      index const grain = block_rows(a.x.heads * a.x.head_dim);
      auto const rotate = [&](index block, detail::angles& buffers) {
        float* const cosines = buffers.cosines.data();
        float* const sines = buffers.sines.data();
        for (index r = block * grain; r < std::min(rows, (block + 1) * grain); ++r) {
          for (index i = 0; i < pairs; ++i) {
            index const position = a.options.first + r % a.x.sequence;
            double const angle = a.direction * static_cast<double>(position) *
                                 a.options.frequencies[static_cast<std::size_t>(i)];
            double const growth = ops::rope_growth(a.options, position, i);
            cosines[i] = static_cast<float>(growth * std::cos(angle));
            sines[i] = static_cast<float>(growth * std::sin(angle));
          }
          simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
            detail::rotate_heads<lanes>(a.x, r / a.x.sequence, r % a.x.sequence, pairs, cosines,
                                        sines);
          });
        }
      };
      detail::with_scratch<detail::angles>(s.memory(), s.threads(), (rows + grain - 1) / grain,
                                           rotate, pairs);
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
