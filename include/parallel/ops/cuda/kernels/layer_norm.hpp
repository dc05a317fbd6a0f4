// layer_norm and the gradient of its input, as kernels: one block a row, which each thread keeps in
// registers (16 elements; what is wider is read again from the cache), so memory is passed over
// once. Two sums over the row each, one after the other: the
// variance is taken around the mean. Arithmetic and sums in accumulate_t<T>, in an order that the
// number of threads and the width of the row fix.
//
// Shared memory: 2 * 32 accumulate_t<T>.
#pragma once

#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// Whether the rows of all views, and weight and bias, are aligned groups, none of them cut short.
template <class T, class... View>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool whole_rows(T const* weight, T const* bias,
                                                     View const&... views) {
  constexpr unsigned N = pack_size<T>;
  return groupable<N>(weight, bias) &&
         (groupable_rows<N>(views.data, views.columns, views.row_stride) && ...);
}

/// One block per row of x. Groups that a thread keeps: `Kept`.
template <class T, unsigned Kept = kept_groups<T>>
struct layer_norm {
  using A = accumulate_t<T>;

  ops::rows_view<T> y;
  ops::rows_view<T const> x;
  T const* weight;
  T const* bias;  // may be null
  A* mean;        // null when nobody asks for statistics
  A* rstd;
  A eps;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if (whole_rows(weight, bias, y, x))
      pass<true>(b);
    else
      pass<false>(b);
  }

 private:
  template <bool Whole, class Block>
  PARALLELLM_DEVICE void pass(Block& b) const {
    A* const scratch = b.template shared<A>();
    auto const m = static_cast<index>(b.block());
    auto const columns = static_cast<unsigned>(x.columns);
    held_row<T, Kept, Whole> const held(b, x.data + m * x.row_stride, columns);
    auto const& row = held.row;

    A sum = 0;
    for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      unrolled<pack_size<T>>([&](unsigned i) { sum += A(values.value[i]); });  // zeros at the end
    });
    A const center = combine_block(b, sum, scratch, plus{}) / static_cast<A>(columns);

    A squares = 0;
    for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const distance = i < row.valid(p) ? A(values.value[i]) - center : A(0);
        squares += distance * distance;
      });
    });
    A const variance =
        combine_block(b, squares, scratch + warp_size, plus{}) / static_cast<A>(columns);
    A const factor = A(1) / std::sqrt(variance + eps);
    if (mean != nullptr && b.thread() == 0) {
      mean[m] = center;
      rstd[m] = factor;
    }

    row_groups<T, pack_size<T>, Whole> const out(y.data + m * y.row_stride, columns);
    row_groups<T const, pack_size<T>, Whole> const gain(weight, columns);
    row_groups<T const, pack_size<T>, Whole> const shift(bias, columns);
    for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gains = gain.load(p);
      typename row_groups<T>::group_type shifts{};
      if (bias != nullptr) shifts = shift.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        values.value[i] = static_cast<T>(
            (A(values.value[i]) - center) * factor * A(gains.value[i]) + A(shifts.value[i]));
      });
      out.store(p, values);
    });
  }
};

/// One block per row of x.
template <class T, unsigned Kept = kept_groups<T>>
struct layer_norm_backward_input {
  using A = accumulate_t<T>;

  ops::rows_view<T> dx;
  ops::rows_view<T const> dy;
  ops::rows_view<T const> x;
  T const* weight;
  A const* mean;
  A const* rstd;
  ops::rows_view<T const> addend;  // or no rows

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if (whole_rows(weight, weight, dx, dy, x, addend))
      pass<true>(b);
    else
      pass<false>(b);
  }

 private:
  template <bool Whole, class Block>
  PARALLELLM_DEVICE void pass(Block& b) const {
    A* const scratch = b.template shared<A>();
    auto const m = static_cast<index>(b.block());
    auto const columns = static_cast<unsigned>(x.columns);
    held_row<T, Kept, Whole> const held(b, x.data + m * x.row_stride, columns);
    held_row<T, Kept, Whole> const slopes(b, dy.data + m * dy.row_stride, columns);
    row_groups<T const, pack_size<T>, Whole> const gain(weight, columns);
    A const center = mean[m];
    A const factor = rstd[m];

    A sum = 0;      // of slopes: what a shift of all x would change
    A product = 0;  // of slope * normal: what a scaling of all x would change
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * A(gains.value[i]);  // zeros at the end
        sum += slope;
        product += slope * ((A(values.value[i]) - center) * factor);
      });
    });
    A const shift = combine_block(b, sum, scratch, plus{}) / static_cast<A>(columns);
    A const stretch =
        combine_block(b, product, scratch + warp_size, plus{}) / static_cast<A>(columns);

    row_groups<T, pack_size<T>, Whole> const to(dx.data + m * dx.row_stride, columns);
    bool const adds = addend.rows > 0;
    row_groups<T const, pack_size<T>, Whole> const more(
        addend.data + (adds ? m * addend.row_stride : 0), columns);
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      typename row_groups<T>::group_type around{};
      if (adds) around = more.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * A(gains.value[i]);
        A const normal = (A(values.value[i]) - center) * factor;
        A out = factor * (slope - shift - normal * stretch);
        if (adds) out += A(around.value[i]);
        values.value[i] = static_cast<T>(out);
      });
      to.store(p, values);
    });
  }
};

}  // namespace parallel::cuda::kernels
