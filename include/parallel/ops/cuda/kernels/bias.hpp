// add_bias as a kernel. Its gradient is that of a normalisation's bias (norm_weight_gradient.hpp).
// Cost: memory bandwidth.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/elements.hpp>

namespace parallel::cuda::kernels {

/// y[m,n] += bias[n].
template <class T>
struct add_bias {
  T* y;
  T const* bias;
  index rows, columns;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(bias);
    for_each_in_rows<N>(b, rows, columns, aligned, [this]<unsigned n>(index m, index c) {
      auto sum = load_group<n>(y + m * columns + c);
      auto const addend = load_group<n>(bias + c);
      for (unsigned i = 0; i < n; ++i)
        sum.value[i] = static_cast<T>(A(sum.value[i]) + A(addend.value[i]));
      store_group(y + m * columns + c, sum);
    });
  }
};

}  // namespace parallel::cuda::kernels
