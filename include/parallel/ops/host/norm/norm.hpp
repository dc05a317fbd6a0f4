// layer_norm, rms_norm and their gradients on the host: three passes over a row that stays in
// cache, or two for rms_norm, which is not Centred.
#pragma once

#include <cmath>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>

namespace parallel::host {

namespace detail {

/// The packs of x, less `center` if Centred.
template <bool Centred, int L, class Center>
[[gnu::always_inline]] inline auto less_center(simd::pack<float, L> const& x,
                                               Center const& center) {
  if constexpr (Centred)
    return x - center;
  else
    return x;
}

}  // namespace detail

template <class T, bool Centred>
void run_operation(stream& s, ops::norm_arguments<T, Centred> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      T const* const shift = a.bias.empty() ? nullptr : a.bias.data();
      float* const rstds = a.rstd.empty() ? nullptr : a.rstd.data();
      for_rows(
          threads, a.x.rows, a.x.columns,
          [ =, gain = a.weight.data(), means = a.mean.data() ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = a.x.columns;
            T const* const from = a.x.data + m * a.x.row_stride;
            T* const to = a.y.data + m * a.y.row_stride;
            float const width = static_cast<float>(columns);
            auto const value = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(from + i, left);
            };
            float row_mean = 0;
            if constexpr (Centred) row_mean = sum_packs<L>(columns, value) / width;
            auto const center = broadcast<L>(row_mean);
            auto const distance = [=](index i, index left) __attribute__((always_inline)) {
              return detail::less_center<Centred>(value(i, left), center);
            };
            auto const square = [=](index i, index left) __attribute__((always_inline)) {
              auto const number = distance(i, left);
              return number * number;
            };
            float const variance = sum_packs<L>(columns, square) / width;
            float const row_rstd = 1.0F / std::sqrt(variance + static_cast<float>(a.options.eps));
            auto const factor = broadcast<L>(row_rstd);
            auto const offset = broadcast<L>(static_cast<float>(a.options.weight_offset));
            if (rstds != nullptr) {
              if constexpr (Centred) means[m] = row_mean;
              rstds[m] = row_rstd;
            }
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              auto out =
                  distance(i, left) * factor * (simd::load_partial<L>(gain + i, left) + offset);
              if (Centred && shift != nullptr) out += simd::load_partial<L>(shift + i, left);
              simd::store_partial(to + i, out, left);
            }
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T, bool Centred>
void run_operation(stream& s, ops::norm_backward_input_arguments<T, Centred> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_rows(
          threads, a.x.rows, a.x.columns,
          [ =, gain = a.weight.data(), means = a.mean.data(), rstds = a.rstd.data() ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const columns = a.x.columns;
            T const* const from = a.x.data + m * a.x.row_stride;
            T const* const gradient = a.dy.data + m * a.dy.row_stride;
            T* const to = a.dx.data + m * a.dx.row_stride;
            T const* const addend =
                a.addend.rows > 0 ? a.addend.data + m * a.addend.row_stride : nullptr;
            auto const center = broadcast<L>(Centred ? means[m] : 0.0F);
            auto const factor = broadcast<L>(rstds[m]);
            auto const offset = broadcast<L>(static_cast<float>(a.weight_offset));
            float const width = static_cast<float>(columns);
            auto const normal = [=](index i, index left) __attribute__((always_inline)) {
              return detail::less_center<Centred>(simd::load_partial<L>(from + i, left), center) *
                     factor;
            };
            auto const slope = [=](index i, index left) __attribute__((always_inline)) {
              return simd::load_partial<L>(gradient + i, left) *
                     (simd::load_partial<L>(gain + i, left) + offset);
            };
            auto const product = [=](index i, index left) __attribute__((always_inline)) {
              return slope(i, left) * normal(i, left);
            };
            float mean_slope = 0;
            if constexpr (Centred) mean_slope = sum_packs<L>(columns, slope) / width;
            auto const shift = broadcast<L>(mean_slope);
            auto const stretch = broadcast<L>(sum_packs<L>(columns, product) / width);
            for (index i = 0; i < columns; i += L) {
              index const left = columns - i;
              // One expression: with a name for its left side g++ fuses other products.
              auto out = (detail::less_center<Centred>(slope(i, left), shift) -
                          normal(i, left) * stretch) *
                         factor;
              if (addend != nullptr) out += simd::load_partial<L>(addend + i, left);
              simd::store_partial(to + i, out, left);
            }
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T, bool Centred>
void run_operation(stream& s, ops::norm_backward_weight_arguments<T, Centred> const& a) {
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.x.columns;
      bool const with_bias = Centred && !a.dbias.empty();
      // the sums of a block: `columns` for the weight, then `columns` for the bias
      auto const sums = sum_rows(
          s.memory(), threads, a.x.rows, with_bias ? 2 * columns : columns,
          [ =, means = a.mean.data(), rstds = a.rstd.data() ](auto lanes, index m, float* to)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                T const* const from = a.x.data + m * a.x.row_stride;
                T const* const gradient = a.dy.data + m * a.dy.row_stride;
                auto const center = broadcast<L>(Centred ? means[m] : 0.0F);
                auto const factor = broadcast<L>(rstds[m]);
                for (index i = 0; i < columns; i += L) {
                  index const left = columns - i;
                  auto const g = simd::load_partial<L>(gradient + i, left);
                  auto const normal =
                      detail::less_center<Centred>(simd::load_partial<L>(from + i, left), center) *
                      factor;
                  simd::store_partial(
                      to + i, simd::fma(g, normal, simd::load_partial<L>(to + i, left)), left);
                  if (with_bias)
                    simd::store_partial(to + columns + i,
                                        simd::load_partial<L>(to + columns + i, left) + g, left);
                }
              });
      for (index n = 0; n < a.dweight.size(); ++n) a.dweight.data()[n] += sums[n];
      for (index n = 0; n < a.dbias.size(); ++n) a.dbias.data()[n] += sums[columns + n];
    } else {
      ops::compute(a);
    }
  });
}

/// The reference loops: layers on the host compute the two gradients separately.
template <class T>
void run_operation(stream& s, ops::norm_gradients_arguments<T> const& a) {
  s.enqueue({a.name}, [=] { ops::compute(a); });
}

}  // namespace parallel::host
