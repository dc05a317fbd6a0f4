// layer_norm, rms_norm and the gradients of their input, as kernels: one block per row. Each thread
// keeps 16 elements of the row in registers and reads the rest of a wider row again from the cache,
// so there is one pass over memory. layer_norm computes two sums over the row, one after the other:
// the variance is taken around the mean. rms_norm (not Centred) needs one. Arithmetic and sums are
// in accumulate_t<T>, in an order that depends on the number of threads and the width of the row.
//
// Shared memory: 2 * 32 accumulate_t<T>, or 32 unless Centred.
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

/// One block per row of x. Centred: the norm is layer_norm; else bias and mean are null, and it is
/// rms_norm. Kept: the number of groups that a thread keeps.
template <class T, bool Centred, unsigned Kept = kept_groups<T>>
struct norm {
  using A = accumulate_t<T>;

  ops::rows_view<T> y;
  ops::rows_view<T const> x;
  T const* weight;
  T const* bias;  // may be null
  A* mean;        // mean and rstd are null if they are not needed
  A* rstd;
  A eps;
  A weight_offset = 0;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if constexpr (Centred)
      if (whole_rows(weight, bias, y, x)) return pass<true>(b);
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

    A center = 0;
    if constexpr (Centred) {
      A sum = 0;
      for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
        auto const values = held.at(p, k);
        unrolled<pack_size<T>>([&](unsigned i) { sum += A(values.value[i]); });  // zeros at the end
      });
      center = combine_block(b, sum, scratch, plus{}) / static_cast<A>(columns);
    }

    A squares = 0;
    for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const distance = !Centred || i < row.valid(p) ? A(values.value[i]) - center : A(0);
        squares += distance * distance;
      });
    });
    A const variance = combine_block(b, squares, scratch + (Centred ? warp_size : 0), plus{}) /
                       static_cast<A>(columns);
    A const factor = A(1) / std::sqrt(variance + eps);
    if (rstd != nullptr && b.thread() == 0) {
      if constexpr (Centred) mean[m] = center;
      rstd[m] = factor;
    }

    row_groups<T, pack_size<T>, Whole> const out(y.data + m * y.row_stride, columns);
    row_groups<T const, pack_size<T>, Whole> const gain(weight, columns);
    row_groups<T const, pack_size<T>, Whole> const shift(bias, columns);
    for_each_group<Kept>(b, row.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gains = gain.load(p);
      typename row_groups<T>::group_type shifts{};
      if (Centred && bias != nullptr) shifts = shift.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        if constexpr (Centred)
          values.value[i] = static_cast<T>((A(values.value[i]) - center) * factor *
                                               (A(gains.value[i]) + weight_offset) +
                                           A(shifts.value[i]));
        else
          values.value[i] =
              static_cast<T>(A(values.value[i]) * factor * (A(gains.value[i]) + weight_offset));
      });
      out.store(p, values);
    });
  }
};

/// One block per row of x. Unless Centred, mean is null.
template <class T, bool Centred, unsigned Kept = kept_groups<T>>
struct norm_backward_input {
  using A = accumulate_t<T>;

  ops::rows_view<T> dx;
  ops::rows_view<T const> dy;
  ops::rows_view<T const> x;
  T const* weight;
  A const* mean;
  A const* rstd;
  ops::rows_view<T const> addend;  // or no rows
  A weight_offset = 0;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    if constexpr (Centred)
      if (whole_rows(weight, weight, dx, dy, x, addend)) return pass<true>(b);
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
    A const center = Centred ? mean[m] : A(0);
    A const factor = rstd[m];

    A sum = 0;      // of slopes: the derivative by a shift of all x
    A product = 0;  // of slope * normal: the derivative by a scaling of all x
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const slope =
            A(gradient.value[i]) * (A(gains.value[i]) + weight_offset);  // zeros at the end
        if constexpr (Centred) sum += slope;
        product += slope * ((A(values.value[i]) - center) * factor);
      });
    });
    A shift = 0;
    if constexpr (Centred) shift = combine_block(b, sum, scratch, plus{}) / static_cast<A>(columns);
    A const stretch = combine_block(b, product, scratch + (Centred ? warp_size : 0), plus{}) /
                      static_cast<A>(columns);

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
        A const slope = A(gradient.value[i]) * (A(gains.value[i]) + weight_offset);
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
