// layer_norm and the gradient of its input, as kernels: one block per row. Each thread keeps 16
// elements of the row in registers and reads the rest of a wider row again from the cache, so there
// is one pass over memory. Each kernel computes two sums over the row, one after the other: the
// variance is taken around the mean. Arithmetic and sums are in accumulate_t<T>, in an order that
// depends on the number of threads and the width of the row.
//
// Shared memory: 2 * 32 accumulate_t<T>.
#pragma once

#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// Whether the rows of all views, and weight and bias, consist of aligned full groups.
template <class T, class... View>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool whole_rows(T const* weight, T const* bias,
                                                     View const&... views) {
  constexpr unsigned N = pack_size<T>;
  return groupable<N>(weight, bias) &&
         (groupable_rows<N>(views.data, views.columns, views.row_stride) && ...);
}

/// One block per row of x. Kept: the number of groups that a thread keeps.
template <class T, unsigned Kept = kept_groups<T>>
struct layer_norm {
  using A = accumulate_t<T>;

  ops::rows_view<T> y;
  ops::rows_view<T const> x;
  T const* weight;
  T const* bias;  // may be null
  A* mean;        // null if the statistics are not needed
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

    A sum = 0;      // of slopes: the derivative by a shift of all x
    A product = 0;  // of slope * normal: the derivative by a scaling of all x
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
    row_groups<T const, pack_size<T>, Whole> const addend_row(
        addend.data + (adds ? m * addend.row_stride : 0), columns);
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      typename row_groups<T>::group_type added{};
      if (adds) added = addend_row.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * A(gains.value[i]);
        A const normal = (A(values.value[i]) - center) * factor;
        A out = factor * (slope - shift - normal * stretch);
        if (adds) out += A(added.value[i]);
        values.value[i] = static_cast<T>(out);
      });
      to.store(p, values);
    });
  }
};

}  // namespace parallel::cuda::kernels
