// rms_norm and its gradients on the host: two passes over a row that stays in cache.
#pragma once

#include <cmath>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/rms_norm.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::host {

template <class T>
void rms_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> rstd,
                   ops::rows_view<T const> x, vector_view<T const> weight,
                   ops::rms_norm_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      float* const rstds = rstd.empty() ? nullptr : rstd.data();
      for_rows(
          threads, x.rows, x.columns,
          [ =, gain = weight.data() ](auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = x.columns;
            T const* const from = x.data + m * x.row_stride;
            T* const to = y.data + m * y.row_stride;
            auto const square = [=](index i, index left) __attribute__((always_inline)) {
              auto const value = simd::load_partial<L>(from + i, left);
              return value * value;
            };
            float const mean = sum_packs<L>(columns, square) / static_cast<float>(columns);
            float const row_rstd = 1.0F / std::sqrt(mean + static_cast<float>(options.eps));
            auto const factor = broadcast<L>(row_rstd);
            if (rstds != nullptr) rstds[m] = row_rstd;
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              simd::store_partial(to + i,
                                  simd::load_partial<L>(from + i, left) * factor *
                                      simd::load_partial<L>(gain + i, left),
                                  left);
            }
          });
    } else {
      reference::stream here;
      ops::rms_norm(here, y, rstd, x, weight, options);
    }
  });
}

template <class T>
void rms_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                  ops::rows_view<T const> x, vector_view<T const> weight,
                                  vector_view<accumulate_t<T> const> rstd,
                                  ops::rows_view<T const> addend) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, x.rows, x.columns,
          [ =, gain = weight.data(), rstds = rstd.data() ](auto lanes,
                                                           index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = x.columns;
            T const* const from = x.data + m * x.row_stride;
            T const* const gradient = dy.data + m * dy.row_stride;
            T* const to = dx.data + m * dx.row_stride;
            T const* const more = addend.rows > 0 ? addend.data + m * addend.row_stride : nullptr;
            auto const factor = broadcast<L>(rstds[m]);
            auto const normal = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(from + i, left) * factor;
            };
            auto const slope = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(gradient + i, left) *
                     simd::load_partial<L>(gain + i, left);
            };
            auto const product = [=](index i, index left) __attribute__((always_inline)) {
              return slope(i, left) * normal(i, left);
            };
            auto const stretch =
                broadcast<L>(sum_packs<L>(columns, product) / static_cast<float>(columns));
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              auto out = (slope(i, left) - normal(i, left) * stretch) * factor;
              if (more != nullptr) out += simd::load_partial<L>(more + i, left);
              simd::store_partial(to + i, out, left);
            }
          });
    } else {
      reference::stream here;
      ops::rms_norm_backward_input(here, dx, dy, x, weight, rstd, addend);
    }
  });
}

template <class T>
void rms_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                   ops::rows_view<T const> dy, ops::rows_view<T const> x,
                                   vector_view<accumulate_t<T> const> rstd) {
  s.enqueue([=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = x.columns;
      auto const sums = sum_rows(
          s.memory(), threads, x.rows, columns,
          [ =, rstds = rstd.data() ](auto lanes, index m, float* to)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                T const* const from = x.data + m * x.row_stride;
                T const* const gradient = dy.data + m * dy.row_stride;
                auto const factor = broadcast<L>(rstds[m]);
                for (index i = 0; i < columns; i += L) {
                  index const left = columns - i;
                  auto const normal = simd::load_partial<L>(from + i, left) * factor;
                  simd::store_partial(to + i,
                                      simd::fma(simd::load_partial<L>(gradient + i, left), normal,
                                                simd::load_partial<L>(to + i, left)),
                                      left);
                }
              });
      for (index n = 0; n < columns; ++n) dweight.data()[n] += sums[n];
    } else {
      reference::stream here;
      ops::rms_norm_backward_weight(here, dweight, dy, x, rstd);
    }
  });
}

}  // namespace parallel::host
