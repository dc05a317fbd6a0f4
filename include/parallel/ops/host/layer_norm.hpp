// layer_norm and its gradients on the host: three passes over a row that stays in cache.
#pragma once

#include <cmath>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/layer_norm.hpp>
#include <parallel/ops/reference/layer_norm.hpp>

namespace parallel::host {

template <class T>
void layer_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> mean,
                     vector_view<accumulate_t<T>> rstd, ops::rows_view<T const> x,
                     vector_view<T const> weight, vector_view<T const> bias,
                     ops::layer_norm_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      T const* const shift = bias.empty() ? nullptr : bias.data();
      float* const means = mean.empty() ? nullptr : mean.data();
      for_rows(
          threads, x.rows, x.columns,
          [ =, gain = weight.data(), rstds = rstd.data() ](auto lanes,
                                                           index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = x.columns;
            T const* const from = x.data + m * x.row_stride;
            T* const to = y.data + m * y.row_stride;
            float const width = static_cast<float>(columns);
            auto const value = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(from + i, left);
            };
            float const row_mean = sum_packs<L>(columns, value) / width;
            auto const center = broadcast<L>(row_mean);
            auto const square = [=](index i, index left) __attribute__((always_inline)) {
              auto const distance = value(i, left) - center;
              return distance * distance;
            };
            float const variance = sum_packs<L>(columns, square) / width;
            float const row_rstd = 1.0F / std::sqrt(variance + static_cast<float>(options.eps));
            auto const factor = broadcast<L>(row_rstd);
            if (means != nullptr) {
              means[m] = row_mean;
              rstds[m] = row_rstd;
            }
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              auto out = (value(i, left) - center) * factor * simd::load_partial<L>(gain + i, left);
              if (shift != nullptr) out += simd::load_partial<L>(shift + i, left);
              simd::store_partial(to + i, out, left);
            }
          });
    } else {
      reference::stream here;
      ops::layer_norm(here, y, mean, rstd, x, weight, bias, options);
    }
  });
}

template <class T>
void layer_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                    ops::rows_view<T const> x, vector_view<T const> weight,
                                    vector_view<accumulate_t<T> const> mean,
                                    vector_view<accumulate_t<T> const> rstd,
                                    ops::rows_view<T const> addend) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, x.rows, x.columns,
          [ =, gain = weight.data(), means = mean.data(), rstds = rstd.data() ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = x.columns;
            T const* const from = x.data + m * x.row_stride;
            T const* const gradient = dy.data + m * dy.row_stride;
            T* const to = dx.data + m * dx.row_stride;
            T const* const more = addend.rows > 0 ? addend.data + m * addend.row_stride : nullptr;
            auto const center = broadcast<L>(means[m]);
            auto const factor = broadcast<L>(rstds[m]);
            float const width = static_cast<float>(columns);
            auto const normal = [=](index i, index left) __attribute__((always_inline)) {
              return (simd::load_partial<L>(from + i, left) - center) * factor;
            };
            auto const slope = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(gradient + i, left) *
                     simd::load_partial<L>(gain + i, left);
            };
            auto const product = [=](index i, index left) __attribute__((always_inline)) {
              return slope(i, left) * normal(i, left);
            };
            auto const shift = broadcast<L>(sum_packs<L>(columns, slope) / width);
            auto const stretch = broadcast<L>(sum_packs<L>(columns, product) / width);
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              auto out = (slope(i, left) - shift - normal(i, left) * stretch) * factor;
              if (more != nullptr) out += simd::load_partial<L>(more + i, left);
              simd::store_partial(to + i, out, left);
            }
          });
    } else {
      reference::stream here;
      ops::layer_norm_backward_input(here, dx, dy, x, weight, mean, rstd, addend);
    }
  });
}

template <class T>
void layer_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                     vector_view<accumulate_t<T>> dbias, ops::rows_view<T const> dy,
                                     ops::rows_view<T const> x,
                                     vector_view<accumulate_t<T> const> mean,
                                     vector_view<accumulate_t<T> const> rstd) {
  s.enqueue([=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = x.columns;
      bool const with_bias = !dbias.empty();
      // sums of a block: columns for the weight, then columns for the bias
      auto const sums = sum_rows(
          s.memory(), threads, x.rows, with_bias ? 2 * columns : columns,
          [ =, means = mean.data(), rstds = rstd.data() ](auto lanes, index m, float* to)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                T const* const from = x.data + m * x.row_stride;
                T const* const gradient = dy.data + m * dy.row_stride;
                auto const center = broadcast<L>(means[m]);
                auto const factor = broadcast<L>(rstds[m]);
                for (index i = 0; i < columns; i += L) {
                  index const left = columns - i;
                  auto const g = simd::load_partial<L>(gradient + i, left);
                  auto const normal = (simd::load_partial<L>(from + i, left) - center) * factor;
                  simd::store_partial(
                      to + i, simd::fma(g, normal, simd::load_partial<L>(to + i, left)), left);
                  if (with_bias)
                    simd::store_partial(to + columns + i,
                                        simd::load_partial<L>(to + columns + i, left) + g, left);
                }
              });
      for (index n = 0; n < dweight.size(); ++n) dweight.data()[n] += sums[n];
      for (index n = 0; n < dbias.size(); ++n) dbias.data()[n] += sums[columns + n];
    } else {
      reference::stream here;
      ops::layer_norm_backward_weight(here, dweight, dbias, dy, x, mean, rstd);
    }
  });
}

}  // namespace parallel::host
