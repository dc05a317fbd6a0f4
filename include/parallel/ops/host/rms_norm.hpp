// rms_norm and its gradients on the host: two passes over a row that stays in cache.
#pragma once

#include <cmath>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::rms_norm_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      float* const rstds = a.rstd.empty() ? nullptr : a.rstd.data();
      for_rows(
          threads, a.x.rows, a.x.columns,
          [ =, gain = a.weight.data() ](auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = a.x.columns;
            T const* const from = a.x.data + m * a.x.row_stride;
            T* const to = a.y.data + m * a.y.row_stride;
            auto const square = [=](index i, index left) __attribute__((always_inline)) {
              auto const value = simd::load_partial<L>(from + i, left);
              return value * value;
            };
            float const mean = sum_packs<L>(columns, square) / static_cast<float>(columns);
            float const row_rstd = 1.0F / std::sqrt(mean + static_cast<float>(a.options.eps));
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
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::rms_norm_backward_input_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, a.x.rows, a.x.columns,
          [ =, gain = a.weight.data(), rstds = a.rstd.data() ](auto lanes, index m)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                index const columns = a.x.columns;
                T const* const from = a.x.data + m * a.x.row_stride;
                T const* const gradient = a.dy.data + m * a.dy.row_stride;
                T* const to = a.dx.data + m * a.dx.row_stride;
                T const* const addend =
                    a.addend.rows > 0 ? a.addend.data + m * a.addend.row_stride : nullptr;
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
                  if (addend != nullptr) out += simd::load_partial<L>(addend + i, left);
                  simd::store_partial(to + i, out, left);
                }
              });
    } else {
      ops::compute(a);
    }
  });
}

template <class T>
void run_operation(stream& s, ops::rms_norm_backward_weight_arguments<T> const& a) {
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.x.columns;
      auto const sums = sum_rows(
          s.memory(), threads, a.x.rows, columns,
          [ =, rstds = a.rstd.data() ](auto lanes, index m, float* to)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                T const* const from = a.x.data + m * a.x.row_stride;
                T const* const gradient = a.dy.data + m * a.dy.row_stride;
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
      for (index n = 0; n < columns; ++n) a.dweight.data()[n] += sums[n];
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
