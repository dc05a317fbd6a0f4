// norm_gradients as a kernel: one block per run of rows, which it processes one after another. Each
// thread has the same columns of every row and keeps their weights and sums in registers, and the
// 16 elements of a row that it reads twice (the rest of a wider row is read again from the cache,
// and summed in memory). While a row is processed, the next is loaded from memory. Arithmetic and
// sums are in accumulate_t<T>, in an order that depends on the number of threads, the width and the
// run of rows.
//
// Shared memory: 4 * 32 accumulate_t<T>.
#pragma once

#include <parallel/ops/cuda/kernels/norm/norm.hpp>

namespace parallel::cuda::kernels {

/// One block per run. Centred: the norm is layer_norm; else mean is null. Whole: whole_rows holds;
/// other rows have another kernel, since they need more registers. Kept: the number of groups that
/// a thread keeps.
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
  A weight_offset = 0;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const columns = static_cast<unsigned>(x.columns);
    index const begin = x.rows * b.block() / b.blocks();
    index const end = x.rows * (b.block() + index{1}) / b.blocks();
    held const gains(b, weight, columns);
    sums run_sums;
    held next_values(b, x.data + begin * x.row_stride, columns);
    held next_slopes(b, dy.data + begin * dy.row_stride, columns);
    for (index m = begin; m < end; ++m) {
      held const values = next_values;
      held const slopes = next_slopes;
      if (m + 1 < end) {
        next_values = held(b, x.data + (m + 1) * x.row_stride, columns);
        next_slopes = held(b, dy.data + (m + 1) * dy.row_stride, columns);
      }
      row(b, m, m == begin, values, slopes, gains, run_sums);
    }
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      if (k < Kept)
        unrolled<pack_elements>([&](unsigned i) {
          if (i >= gains.row.valid(p)) return;
          std::size_t const element = std::size_t{b.block()} * columns + p * pack_elements + i;
          weight_sums[element] = run_sums.products[k * pack_elements + i];
          if constexpr (Biased) bias_sums[element] = run_sums.plain[k * pack_elements + i];
        });
    });
  }

 private:
  static constexpr unsigned pack_elements = pack_size<T>;
  using held = held_row<T, Kept, Whole>;

  /// The sums of a run for the columns that a thread keeps.
  struct sums {
    A products[Kept * pack_elements] = {};
    A plain[Biased ? Kept * pack_elements : 1] = {};
  };

  template <class Block>
  PARALLELLM_DEVICE void row(Block& b, index m, bool first, held const& of_x, held const& slopes,
                             held const& gains, sums& run_sums) const {
    auto const columns = static_cast<unsigned>(x.columns);
    A const center = Centred ? mean[m] : A(0);
    A const factor = rstd[m];
    bool const adds = addend.rows > 0;
    // loaded while the sums are computed
    held const addend_row(b, addend.data + (adds ? m * addend.row_stride : 0), adds ? columns : 0);

    A sum = 0;      // of slopes: the derivative by a shift of all x
    A product = 0;  // of slope * normal: the derivative by a scaling of all x
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      auto const values = of_x.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gain = gains.at(p, k);
      unrolled<pack_elements>([&](unsigned i) {  // zeros at the end
        A const normal = (A(values.value[i]) - center) * factor;
        A const slope = A(gradient.value[i]) * (A(gain.value[i]) + weight_offset);
        if (Centred) sum += slope;
        product += slope * normal;
        A const term = A(gradient.value[i]) * normal;
        if (k < Kept) {
          run_sums.products[k * pack_elements + i] += term;
          if constexpr (Biased) run_sums.plain[k * pack_elements + i] += A(gradient.value[i]);
        } else if (i < gains.row.valid(p)) {
          std::size_t const element = std::size_t{b.block()} * columns + p * pack_elements + i;
          weight_sums[element] = (first ? A(0) : weight_sums[element]) + term;
          if constexpr (Biased)
            bias_sums[element] = (first ? A(0) : bias_sums[element]) + A(gradient.value[i]);
        }
      });
    });
    // alternating halves of shared memory, so that one barrier per row is enough
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

    row_groups<T, pack_elements, Whole> const to(dx.data + m * dx.row_stride, columns);
    for_each_group<Kept>(b, gains.row.groups(), [&](unsigned p, unsigned k) {
      auto values = of_x.at(p, k);
      auto const gradient = slopes.at(p, k);
      auto const gain = gains.at(p, k);
      typename row_groups<T>::group_type added{};
      if (adds) added = addend_row.at(p, k);
      unrolled<pack_elements>([&](unsigned i) {
        A const slope = A(gradient.value[i]) * (A(gain.value[i]) + weight_offset);
        A const normal = (A(values.value[i]) - center) * factor;
        A out = factor * (Centred ? slope - shift - normal * stretch : slope - normal * stretch);
        if (adds) out += A(added.value[i]);
        values.value[i] = static_cast<T>(out);
      });
      to.store(p, values);
    });
  }
};

}  // namespace parallel::cuda::kernels
