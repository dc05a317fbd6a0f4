// norm_gradients as a kernel: one block a run of rows, which it takes one after another, each
// thread with the same columns of each: it keeps their weights and sums in registers, and of a row
// what it reads twice (16 elements; what is wider is read again from the cache, and summed in
// memory). While a row is worked on, the next is on its way from memory. Arithmetic and sums in
// accumulate_t<T>, in an order that the number of threads, the width and the run of rows fix.
//
// Shared memory: 4 * 32 accumulate_t<T>.
#pragma once

#include <parallel/ops/cuda/kernels/layer_norm.hpp>

namespace parallel::cuda::kernels {

/// One block per run. Centred: of layer_norm; else mean is null. Whole: rows are as whole_rows
/// asks; others are for another kernel, since they take more registers. Groups that a thread keeps:
/// `Kept`.
template <class T, bool Centred, bool Biased, bool Whole, unsigned Kept = kept_groups<T>>
struct norm_gradients {
  using A = accumulate_t<T>;

  ops::rows_view<T> dx;
  A* weight_sums;
  A* bias_sums;  // null unless Biased
  ops::rows_view<T const> dy;
  ops::rows_view<T const> x;
  T const* weight;
  A const* mean;
  A const* rstd;
  ops::rows_view<T const> addend;  // or no rows

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const columns = static_cast<unsigned>(x.columns);
    index const begin = x.rows * b.block() / b.blocks();
    index const end = x.rows * (b.block() + index{1}) / b.blocks();
    held const gains(b, weight, columns);
    sums own;
    held next_values(b, x.data + begin * x.row_stride, columns);
    held next_slopes(b, dy.data + begin * dy.row_stride, columns);
    for (index m = begin; m < end; ++m) {
      held const values = next_values;
      held const slopes = next_slopes;
      if (m + 1 < end) {
        next_values = held(b, x.data + (m + 1) * x.row_stride, columns);
        next_slopes = held(b, dy.data + (m + 1) * dy.row_stride, columns);
      }
      row(b, m, m == begin, values, slopes, gains, own);
    }
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      if (k < Kept)
        unrolled<each>([&](unsigned i) {
          if (i >= gains.row.valid(p)) return;
          std::size_t const at = std::size_t{b.block()} * columns + p * each + i;
          weight_sums[at] = own.products[k * each + i];
          if constexpr (Biased) bias_sums[at] = own.plain[k * each + i];
        });
    });
  }

 private:
  static constexpr unsigned each = pack_size<T>;
  using held = held_row<T, Kept, Whole>;

  /// Of a thread's columns that it keeps, what its run adds up to.
  struct sums {
    A products[Kept * each] = {};
    A plain[Biased ? Kept * each : 1] = {};
  };

  template <class Block>
  PARALLELLM_DEVICE void row(Block& b, index m, bool first, held const& of_x, held const& slopes,
                             held const& gains, sums& own) const {
    auto const columns = static_cast<unsigned>(x.columns);
    A const center = Centred ? mean[m] : A(0);
    A const factor = rstd[m];
    bool const adds = addend.rows > 0;
    // on its way while the sums are taken
    held const around(b, addend.data + (adds ? m * addend.row_stride : 0), adds ? columns : 0);

    A sum = 0;      // of slopes: what a shift of all x would change
    A product = 0;  // of slope * normal: what a scaling of all x would change
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      auto const values = of_x.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gain = gains.at(p, k);
      unrolled<each>([&](unsigned i) {  // zeros at the end
        A const normal = (A(values.value[i]) - center) * factor;
        A const slope = A(gradient.value[i]) * A(gain.value[i]);
        if (Centred) sum += slope;
        product += slope * normal;
        A const term = A(gradient.value[i]) * normal;
        if (k < Kept) {
          own.products[k * each + i] += term;
          if constexpr (Biased) own.plain[k * each + i] += A(gradient.value[i]);
        } else if (i < gains.row.valid(p)) {
          std::size_t const at = std::size_t{b.block()} * columns + p * each + i;
          weight_sums[at] = (first ? A(0) : weight_sums[at]) + term;
          if constexpr (Biased)
            bias_sums[at] = (first ? A(0) : bias_sums[at]) + A(gradient.value[i]);
        }
      });
    });
    // two halves of shared memory by turns, so that one barrier a row is enough
    A* const scratch = b.template shared<A>() + static_cast<unsigned>(m % 2) * 2 * warp_size;
    if (Centred) sum = combine_warp(b, sum, plus{});
    product = combine_warp(b, product, plus{});
    if (b.thread() % warp_size == 0) {
      scratch[b.thread() / warp_size] = sum;
      scratch[warp_size + b.thread() / warp_size] = product;
    }
    b.sync();
    A shift = scratch[0];
    A stretch = scratch[warp_size];
    for (unsigned w = 1; w < b.threads() / warp_size; ++w) {
      if (Centred) shift += scratch[w];
      stretch += scratch[warp_size + w];
    }
    shift = shift / static_cast<A>(columns);
    stretch = stretch / static_cast<A>(columns);

    row_groups<T, each, Whole> const to(dx.data + m * dx.row_stride, columns);
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      auto values = of_x.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gain = gains.at(p, k);
      typename row_groups<T>::group_type more{};
      if (adds) more = around.at(p, k);
      unrolled<each>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * A(gain.value[i]);
        A const normal = (A(values.value[i]) - center) * factor;
        A out = factor * (Centred ? slope - shift - normal * stretch : slope - normal * stretch);
        if (adds) out += A(more.value[i]);
        values.value[i] = static_cast<T>(out);
      });
      to.store(p, values);
    });
  }
};

}  // namespace parallel::cuda::kernels
