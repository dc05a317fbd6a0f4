// rms_norm and the gradient of its input, as kernels: one block per row. Each thread keeps 16
// elements of the row in registers and reads the rest of a wider row again from the cache, so there
// is one pass over memory. Arithmetic and sums are in accumulate_t<T>, in an order that depends on
// the number of threads and the width of the row.
//
// Shared memory: 32 accumulate_t<T>.
#pragma once

#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// One block per row of x. Kept: the number of groups that a thread keeps.
template <class T, unsigned Kept = kept_groups<T>>
struct rms_norm {
  using A = accumulate_t<T>;

  ops::rows_view<T> y;
  ops::rows_view<T const> x;
  T const* weight;
  A* rstd;  // null if it is not needed
  A eps;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const m = static_cast<index>(b.block());
    auto const columns = static_cast<unsigned>(x.columns);
    held_row<T, Kept> const held(b, x.data + m * x.row_stride, columns);
    row_groups<T const> const gain(weight, columns);

    A squares = 0;
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      unrolled<pack_size<T>>([&](unsigned i) {  // zeros at the end
        squares += A(values.value[i]) * A(values.value[i]);
      });
    });
    A const mean =
        combine_block(b, squares, b.template shared<A>(), plus{}) / static_cast<A>(columns);
    A const factor = A(1) / std::sqrt(mean + eps);
    if (rstd != nullptr && b.thread() == 0) rstd[m] = factor;

    row_groups<T> const out(y.data + m * y.row_stride, columns);
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gains = gain.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        values.value[i] = static_cast<T>(A(values.value[i]) * factor * A(gains.value[i]));
      });
      out.store(p, values);
    });
  }
};

/// One block per row of x.
template <class T, unsigned Kept = kept_groups<T>>
struct rms_norm_backward_input {
  using A = accumulate_t<T>;

  ops::rows_view<T> dx;
  ops::rows_view<T const> dy;
  ops::rows_view<T const> x;
  T const* weight;
  A const* rstd;
  ops::rows_view<T const> addend;  // or no rows

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const m = static_cast<index>(b.block());
    auto const columns = static_cast<unsigned>(x.columns);
    held_row<T, Kept> const held(b, x.data + m * x.row_stride, columns);
    held_row<T, Kept> const slopes(b, dy.data + m * dy.row_stride, columns);
    row_groups<T const> const gain(weight, columns);
    A const factor = rstd[m];

    A product = 0;  // of slope * normal: the derivative by a scaling of all x
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto const values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {  // zeros at the end
        product += A(gradient.value[i]) * A(gains.value[i]) * (A(values.value[i]) * factor);
      });
    });
    A const stretch =
        combine_block(b, product, b.template shared<A>(), plus{}) / static_cast<A>(columns);

    row_groups<T> const to(dx.data + m * dx.row_stride, columns);
    bool const adds = addend.rows > 0;
    row_groups<T const> const addend_row(addend.data + (adds ? m * addend.row_stride : 0), columns);
    for_each_group<Kept>(b, gain.groups(), [&](unsigned p, unsigned k) {
      auto values = held.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gains = gain.load(p);
      typename row_groups<T>::group_type added{};
      if (adds) added = addend_row.load(p);
      unrolled<pack_size<T>>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * A(gains.value[i]);
        A const normal = A(values.value[i]) * factor;
        A out = factor * (slope - normal * stretch);
        if (adds) out += A(added.value[i]);
        values.value[i] = static_cast<T>(out);
      });
      to.store(p, values);
    });
  }
};

}  // namespace parallel::cuda::kernels
