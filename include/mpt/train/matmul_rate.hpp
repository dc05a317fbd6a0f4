// The rate at which devices multiply matrices: the peak that utilisation is measured against.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
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
  int count = 1;  // products to each wait, which takes time of its own
  auto const begin = clock::now();
  for (int run = 0;; ++run) {
    auto const before = clock::now();
    for (int i = 0; i < count; ++i)
      parallel::ops::matmul(stream, view(c), parallel::matrix_view<T const>(view(a)),
                            parallel::matrix_view<T const>(view(b)), {.transpose_b = true});
    stream.synchronize();
    auto const after = clock::now();
    double const spent = std::chrono::duration<double>(after - before).count();
    if (run > 0) best = std::max(best, count * 2.0 * n * n * n / spent);  // the first one warms up
    if (run > 0 && std::chrono::duration<double>(after - begin).count() > seconds) return best;
    if (spent < 5e-3) count *= 2;
  }
}

/// The peak FLOP/s of products of T on this device: what it states (peak_flops(dtype)), else what
/// is measured.
template <class T, class Device>
[[nodiscard]] double peak_rate(Device const& device, typename Device::stream_type& stream) {
  if constexpr (requires { device.peak_flops(parallel::dtype_of<T>); })
    if (double const stated = device.peak_flops(parallel::dtype_of<T>); stated > 0) return stated;
  return measure_matmul_rate<T>(device, stream);
}

/// Whether this rank stands for its device among the ranks that share it: the lowest of those whose
/// devices have the same identity(). Devices without one, CPUs, are not shared: ranks compute on
/// cores of their own. Collective.
template <class Device>
[[nodiscard]] bool stands_for_device(Device const& device, parallel::any_communicator& comm,
                                     parallel::host::stream& exchanges) {
  if constexpr (requires { device.identity(); }) {
    auto const all = gather_texts(comm, exchanges, device.identity());
    return std::ranges::find(all, device.identity()) - all.begin() == comm.rank();
  } else {
    return true;
  }
}

/// The peak FLOP/s of all ranks' devices together, each counted once, with its peak_rate or `told`
/// of every device. Collective.
template <class T, class Device>
[[nodiscard]] double peak_of_devices(Device const& device, typename Device::stream_type& stream,
                                     std::optional<double> told, parallel::any_communicator& comm,
                                     parallel::host::stream& exchanges) {
  double sum = 0;
  // a shared device is measured by one rank, while the others wait
  if (stands_for_device(device, comm, exchanges)) sum = told ? *told : peak_rate<T>(device, stream);
  comm.all_reduce(exchanges, std::span<double>(&sum, 1), parallel::reduction::sum).wait();
  return sum;
}

}  // namespace mpt
