// rope on the host: rows over threads, sines and cosines once a row, heads in SIMD.
#pragma once

#include <cmath>
#include <vector>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/rope.hpp>
#include <parallel/ops/rope.hpp>

namespace parallel::host {

namespace detail {

/// The heads of one row, whose angles have these cosines and sines.
template <int Lanes, class T>
[[gnu::always_inline]] inline void rotate_heads(ops::heads_view<T> const& x, index b, index s,
                                                float const* cosines, float const* sines) {
  index const half = x.head_dim / 2;
  for (index h = 0; h < x.heads; ++h) {
    T* const row = x.row(b, s, h);
    for (index i = 0; i < half; i += Lanes) {
      index const left = half - i;
      auto const low = simd::load_partial<Lanes>(row + i, left);
      auto const high = simd::load_partial<Lanes>(row + half + i, left);
      auto const cosine = simd::load_partial<Lanes>(cosines + i, left);
      auto const sine = simd::load_partial<Lanes>(sines + i, left);
      simd::store_partial(row + i, simd::fma(-high, sine, low * cosine), left);
      simd::store_partial(row + half + i, simd::fma(low, sine, high * cosine), left);
    }
  }
}

}  // namespace detail

template <class T>
void rope_impl(stream& s, ops::heads_view<T> x, ops::rope_options options, double direction) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      auto const half = static_cast<std::size_t>(x.head_dim / 2);
      index const rows = x.batch * x.sequence;
      parallel_for(threads, rows, block_rows(x.heads * x.head_dim), [&](index begin, index end) {
        std::vector<float> angles(2 * half);
        float* const cosines = angles.data();
        float* const sines = cosines + half;
        for (index r = begin; r < end; ++r) {
          for (std::size_t i = 0; i < half; ++i) {
            double const angle = direction * static_cast<double>(options.first + r % x.sequence) *
                                 options.frequencies[i];
            cosines[i] = static_cast<float>(std::cos(angle));
            sines[i] = static_cast<float>(std::sin(angle));
          }
          simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
            detail::rotate_heads<lanes>(x, r / x.sequence, r % x.sequence, cosines, sines);
          });
        }
      });
    } else {
      reference::stream here;
      reference::rope_impl(here, x, options, direction);
    }
  });
}

}  // namespace parallel::host
