// agreement: whether two ways to compute the same have come to the same, but for how they round.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/heads_view.hpp>

namespace parallel::cuda {

/// Numbers of a device's memory, on the host: those that `s` has written. Blocks.
template <class T>
[[nodiscard]] std::vector<T> on_host(stream& s, std::span<T const> numbers) {
  std::vector<T> out(numbers.size());
  check(cudaMemcpyAsync(out.data(), numbers.data(), numbers.size_bytes(), cudaMemcpyDeviceToHost,
                        s.get()),
        "a copy of results");
  s.synchronize();
  return out;
}

/// Adds the elements of a view, without what lies between them.
inline void append_to(std::vector<float>& values, stream& s,
                      ops::heads_view<bf16 const> const& view) {
  index const width = view.heads * view.head_dim;
  for (index b = 0; b < view.batch; ++b) {
    auto const rows = on_host(
        s, std::span(view.data + b * view.batch_stride,
                     static_cast<std::size_t>((view.sequence - 1) * view.row_stride + width)));
    for (index i = 0; i < view.sequence; ++i)
      std::ranges::transform(rows.begin() + i * view.row_stride,
                             rows.begin() + i * view.row_stride + width, std::back_inserter(values),
                             [](bf16 x) { return static_cast<float>(x); });
  }
}

/// Whether two lists of numbers are 1/16 of their size apart at most, in the root mean square: what
/// rounds otherwise in bf16 is some 1/200, what is wrong in a twentieth of them more. What is not a
/// number agrees with nothing.
[[nodiscard]] inline bool agree(std::span<float const> a, std::span<float const> b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    apart += difference * difference;
    size += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  }
  return a.size() == b.size() && apart <= size / 256;
}

}  // namespace parallel::cuda
