// dropout: the kernel of ops::dropout. Philox makes blocks of four random words, one word for each
// element. Where four elements begin at a multiple of four, as always if widths are multiples of
// four, they are computed with one block; otherwise each element computes its own block. Cost:
// memory bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/pointwise/dropout.hpp>

namespace parallel::cuda::kernels {

/// y[i] = x[i] / (1 - p), or 0 where dropped.
template <class T>
struct dropout {
  T* y;
  T const* x;
  std::size_t count;
  ops::dropout_options options;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    float const p = options.probability;
    A const factor = p < 1.0F ? A(1) / (A(1) - A(p)) : A(0);
    auto const drop = [p, factor](T& v, std::uint32_t word) {
      v = static_cast<T>(philox::to_uniform(word) >= p ? static_cast<A>(v) * factor : A(0));
    };
    bool const grouped = groupable<N>(y, x) && options.columns % N == 0;
    for_each_group_of_grid<N>(b, count, grouped, [&]<unsigned n>(std::size_t first) {
      std::uint64_t const element = options.element(first);
      auto values = load_group<n>(x + first);
      if (n % 4 == 0 && element % 4 == 0) {
        for (unsigned i = 0; i < n; i += 4) {
          auto const words = options.random.block((element + i) / 4);
          for (unsigned k = 0; k < 4; ++k) drop(values.value[i + k], words[k]);
        }
      } else {
        for (unsigned i = 0; i < n; ++i) drop(values.value[i], options.random.bits(element + i));
      }
      store_group(y + first, values);
    });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::dropout_arguments<T> const& a) {
  return grid{blocks_for(a.y.size(), pack_size<T>),
              kernels::dropout<T>{a.y.data(), a.x.data(), a.y.size(), a.options}};
}

}  // namespace parallel::cuda
