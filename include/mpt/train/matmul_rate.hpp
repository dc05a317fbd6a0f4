// The rate at which this host multiplies matrices: the peak that utilisation is measured against.
#pragma once

#include <algorithm>
#include <chrono>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>

namespace mpt {

/// FLOP/s of square products of T on `stream`, the best of several, within about `seconds`. Ranks
/// that share a machine should call it at the same time, as they will compute at the same time.
template <class T>
[[nodiscard]] double measure_matmul_rate(parallel::host::device const& device,
                                         parallel::host::stream& stream, double seconds = 0.5) {
  using clock = std::chrono::steady_clock;
  constexpr parallel::index n = 1024;
  auto const a = device.allocate<T>(n * n);
  auto const b = device.allocate<T>(n * n);
  auto const c = device.allocate<T>(n * n);
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

}  // namespace mpt
