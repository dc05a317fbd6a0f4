// add_bias as a kernel. Its gradient is that of a norm's bias (norm_weight_gradient.hpp). Cost:
// memory bandwidth.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/elements.hpp>

namespace parallel::cuda::kernels {

/// y[m,n] += bias[n], plus addend[m,n] unless it is null.
template <class T>
struct add_bias {
  T* y;
  T const* bias;
  T const* addend;  // or null
  index rows, columns;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(bias, addend);
    for_each_in_rows<N>(b, rows, columns, aligned, [this]<unsigned n>(index m, index c) {
      auto sum = load_group<n>(y + m * columns + c);
      auto const shift = load_group<n>(bias + c);
      group<T, n> added{};
      if (addend != nullptr) added = load_group<n>(addend + m * columns + c);
      for (unsigned i = 0; i < n; ++i) {
        A total = A(sum.value[i]) + A(shift.value[i]);
        if (addend != nullptr) total += A(added.value[i]);
        sum.value[i] = static_cast<T>(total);
      }
      store_group(y + m * columns + c, sum);
    });
  }
};

}  // namespace parallel::cuda::kernels
