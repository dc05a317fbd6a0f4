// rope as a kernel: a block rotates the rows [heads, head_dim] of one position after another.
//
// Sines and cosines are computed in double, once per row, and shared by its heads: on a GPU for
// training, memory traffic hides this. Cost: one pass over memory.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention/rope.hpp>
#include <parallel/ops/cuda/elements.hpp>

namespace parallel::cuda::kernels {

/// Shared memory: 2 * pairs of accumulate_t<T>.
template <class T>
struct rope {
  ops::heads_view<T> x;
  double const* frequencies;
  unsigned pairs;  // the number of frequencies
  index first;
  double direction;                 // 1, or -1 for the inverse rotation
  double const* growths = nullptr;  // null: no scaling
  index origin = 0;
  double growth_sign = 1.0;
  double scale = 1.0;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<A>;
    index const half = pairs;
    bool const aligned = groupable_rows<N>(x.data, half, x.row_stride) &&
                         x.head_dim % index{N} == 0 && x.batch_stride % index{N} == 0;
    A* const cosines = b.template shared<A>();
    A* const sines = cosines + half;
    for (auto row = static_cast<index>(b.block()); row < x.batch * x.sequence;
         row += static_cast<index>(b.blocks())) {
      index const batch = row / x.sequence;
      index const token = row - batch * x.sequence;
      for_each_in_block(b, static_cast<std::size_t>(half), [&](std::size_t i) {
        double const angle = direction * static_cast<double>(first + token) * frequencies[i];
        double const growth = growths == nullptr
                                  ? scale
                                  : scale * std::exp(growth_sign * growths[i] *
                                                     static_cast<double>(first + token - origin));
        cosines[i] = static_cast<A>(growth * std::cos(angle));
        sines[i] = static_cast<A>(growth * std::sin(angle));
      });
      b.sync();
      if (aligned)
        apply_rope<N>(b, x.row(batch, token, 0), cosines, sines);
      else
        apply_rope<1>(b, x.row(batch, token, 0), cosines, sines);
      b.sync();  // the angles have been used
    }
  }

 private:
  template <unsigned n, class Block, class A>
  PARALLELLM_DEVICE void apply_rope(Block const& b, T* heads, A const* cosines,
                                    A const* sines) const {
    unsigned const half = pairs;
    unsigned const groups = half / n;  // per head
    for_each_in_block(b, static_cast<std::size_t>(x.heads) * groups, [&](std::size_t g) {
      unsigned const h = static_cast<unsigned>(g) / groups;
      unsigned const i = (static_cast<unsigned>(g) - h * groups) * n;
      T* const low_at = heads + (h * static_cast<unsigned>(x.head_dim) + i);
      auto low = load_group<n>(low_at);
      auto high = load_group<n>(low_at + half);
      auto const cosine = load_group<n>(cosines + i);
      auto const sine = load_group<n>(sines + i);
      for (unsigned k = 0; k < n; ++k) {
        A const l = static_cast<A>(low.value[k]);
        A const r = static_cast<A>(high.value[k]);
        low.value[k] = static_cast<T>(l * cosine.value[k] - r * sine.value[k]);
        high.value[k] = static_cast<T>(r * cosine.value[k] + l * sine.value[k]);
      }
      store_group(low_at, low);
      store_group(low_at + half, high);
    });
  }
};

}  // namespace parallel::cuda::kernels
