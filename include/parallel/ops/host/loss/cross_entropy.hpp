// cross_entropy on the host. One pass over memory finds the greatest logit and the sum of
// exponentials: for each chunk of 2048 (in the nearest cache) first the maximum, then the sum,
// which is rescaled when the running maximum grows (online softmax: Milakov, Gimelshein, 2018). A
// second pass writes the gradient. Sums of chunks are added in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>

namespace parallel::host {

namespace detail {

/// The greatest number of a row, and the sum of exp(number - top) over the row.
struct exponential_sum {
  float top;
  double sum;
};

/// scale * from[0, Lanes), with -infinity after the first `count` lanes.
template <int Lanes, class Logit>
[[gnu::always_inline]] inline simd::pack<float, Lanes> load_scaled(
    Logit const* from, simd::pack<float, Lanes> const& scale, index count) {
  auto const z = simd::load_partial<Lanes>(from, count) * scale;
  if (count >= Lanes) return z;
  float lanes[Lanes];
  simd::store(lanes, z);
  for (index i = count; i < Lanes; ++i) lanes[i] = -std::numeric_limits<float>::infinity();
  return simd::load<Lanes>(lanes);
}

template <int Lanes, class Logit>
[[gnu::always_inline]] inline exponential_sum sum_exponentials(
    Logit const* from, simd::pack<float, Lanes> const& scale, index count) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  constexpr index chunk = 2048;
  exponential_sum out{lowest, 0.0};
  for (index begin = 0; begin < count; begin += chunk) {
    index const size = std::min(chunk, count - begin);
    Logit const* const part = from + begin;
    simd::pack<float, Lanes> greatest(lowest);
    for (index i = 0; i < size; i += Lanes)
      greatest = simd::max(greatest, load_scaled<Lanes>(part + i, scale, size - i));
    float const top = simd::max_of(greatest);
    if (top > out.top) {
      out.sum *= std::exp(double(out.top) - double(top));
      out.top = top;
    }
    // if all numbers so far are -infinity or NaN, nothing is subtracted
    auto const shift = broadcast<Lanes>(out.top == lowest ? 0.0F : out.top);
    out.sum += double(sum_packs<Lanes>(
        size, [=](index i, index left) __attribute__((always_inline)) {
          return simd::exp(load_scaled<Lanes>(part + i, scale, left) - shift);
        }));
  }
  return out;
}

/// Whether no number before `label` equals its own, which is `top`.
template <class Logit>
[[nodiscard]] bool is_first_maximum(Logit const* from, float scale, index label, float top) {
  for (index n = 0; n < label; ++n)
    if (from[n] * scale == top) return false;
  return true;
}

}  // namespace detail

template <class T, class Loss, class Logit>
void run_operation(stream& s, ops::cross_entropy_arguments<T, Loss, Logit> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      index const columns = a.logits.extent(1);
      T* const gradients = a.dlogits.empty() ? nullptr : a.dlogits.data();
      for (index m = 0; m < a.labels.extent(0); ++m)
        if (a.labels(m) != a.options.ignore) ops::detail::check_label(a.labels(m), columns, m);
      for_rows(
          threads, a.logits.extent(0), columns,
          [ =, scale = static_cast<float>(a.options.scale) ](
              auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            index const label = a.labels.data()[m];
            Logit const* const from = a.logits.data() + m * columns;
            T* const to = gradients == nullptr ? nullptr : gradients + m * columns;
            if (label == a.options.ignore) {
              a.losses.data()[m] = Loss(0);
              a.correct.data()[m] = 0;
              if (to != nullptr)
                for (index i = 0; i < columns; i += L)
                  simd::store_partial(to + i, simd::pack<float, L>(0.0F), columns - i);
              return;
            }
            auto const [top, sum] = detail::sum_exponentials<L>(from, broadcast<L>(scale), columns);
            float const z = from[label] * scale;
            double const loss = std::log(sum) + double(top) - double(z);
            a.losses.data()[m] = static_cast<Loss>(loss);
            a.correct.data()[m] =
                z == top && loss == loss && detail::is_first_maximum(from, scale, label, top);
            if (to == nullptr) return;
            // the gradient of the label in double, because 1 - probability may cancel
            double const at_label = double(scale) * (std::exp(double(z) - double(top)) / sum - 1.0);
            auto const factor = broadcast<L>(static_cast<float>(double(scale) / sum));
            auto const shift = broadcast<L>(top);
            auto const scales = broadcast<L>(scale);
            for (index i = 0; i < columns; i += L) {
              auto const power =
                  simd::exp(simd::load_partial<L>(from + i, columns - i) * scales - shift);
              simd::store_partial(to + i, power * factor, columns - i);
            }
            to[label] = static_cast<T>(static_cast<float>(at_label));
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
