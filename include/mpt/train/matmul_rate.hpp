// The rate at which a device multiplies matrices: the peak that utilisation is measured against.
#pragma once

#include <algorithm>
#include <chrono>

#include <parallel/core/dtype.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>

namespace mpt {

/// FLOP/s of square products of T on `stream`, the best of several, within about `seconds`. Ranks
/// that share a machine should call it at the same time, as they will compute at the same time.
template <class T, class Device>
[[nodiscard]] double measure_matmul_rate(Device const& device, typename Device::stream_type& stream,
                                         double seconds = 0.5) {
  using clock = std::chrono::steady_clock;
  constexpr parallel::index n = 1024;
  auto const a = device.template allocate<T>(n * n);
  auto const b = device.template allocate<T>(n * n);
  auto const c = device.template allocate<T>(n * n);
  for (auto const& matrix : {a, b, c}) parallel::ops::fill(stream, matrix.span(), T(0.5F));
  auto const view = [](parallel::buffer<T> const& m) {
    return parallel::matrix_view<T>(m.data(), {n, n});
  };
  double best = 0;
  auto const begin = clock::now();
  for (int run = 0;; ++run) {
    auto const before = clock::now();
    parallel::ops::matmul(stream, view(c), parallel::matrix_view<T const>(view(a)),
                          parallel::matrix_view<T const>(view(b)), {.transpose_b = true});
    stream.synchronize();
    auto const after = clock::now();
    double const spent = std::chrono::duration<double>(after - before).count();
    if (run > 0) best = std::max(best, 2.0 * n * n * n / spent);  // the first one warms up
    if (run > 0 && std::chrono::duration<double>(after - begin).count() > seconds) return best;
  }
}

/// The peak FLOP/s of products of T that utilisation is measured against: what the device itself
/// states (peak_flops(dtype)), else what is measured.
template <class T, class Device>
[[nodiscard]] double peak_rate(Device const& device, typename Device::stream_type& stream) {
  if constexpr (requires { device.peak_flops(parallel::dtype_of<T>); })
    if (double const stated = device.peak_flops(parallel::dtype_of<T>); stated > 0) return stated;
  return measure_matmul_rate<T>(device, stream);
}

}  // namespace mpt
