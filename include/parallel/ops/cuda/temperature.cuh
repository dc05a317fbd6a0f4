// The launcher of temperature on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/temperature.hpp>
#include <parallel/ops/cuda/temperature.hpp>

namespace parallel::cuda {

template <class T>
void temperature_impl(stream& s, ops::rows_view<T> y, ops::temperature_options options) {
  auto const* const begins =
      options.document_begins.empty() ? nullptr : options.document_begins.data();
  detail::launch(s, "temperature",
                 detail::blocks_for(threads_in_rows<pack_size<T>>(y.rows, y.columns)),
                 kernels::temperature<T>{y, options, begins});
}

}  // namespace parallel::cuda
