// temperature as a kernel: multiplies each row by its factor, which is computed in double. Cost:
// memory bandwidth.
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/attention/temperature.hpp>
#include <parallel/ops/cuda/elements.hpp>

namespace parallel::cuda::kernels {

template <class T>
struct temperature {
  ops::rows_view<T> y;
  ops::temperature_options options;
  std::int32_t const*
      document_begins;  // from the options, whose span kernels cannot use; null: none

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y.data, y.columns, y.row_stride);
    for_each_in_rows<N>(b, y.rows, y.columns, aligned, [this]<unsigned n>(index r, index c) {
      index const document = document_begins == nullptr ? 0 : document_begins[r];
      index const document_position = options.first + r % options.sequence - document;
      auto const factor = static_cast<A>(ops::detail::position_factor(options, document_position));
      auto values = load_group<n>(y.row(r) + c);
      for (unsigned i = 0; i < n; ++i)
        values.value[i] = static_cast<T>(static_cast<A>(values.value[i]) * factor);
      store_group(y.row(r) + c, values);
    });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::temperature_arguments<T> const& a) {
  auto const* const begins =
      a.options.document_begins.empty() ? nullptr : a.options.document_begins.data();
  return grid{blocks_for(threads_in_rows<pack_size<T>>(a.y.rows, a.y.columns)),
              kernels::temperature<T>{a.y, a.options, begins}};
}

}  // namespace parallel::cuda
