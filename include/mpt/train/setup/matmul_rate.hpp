// The rate at which devices multiply matrices: the peak to which utilisation refers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/console/format.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

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
  int count = 1;  // products per synchronisation, whose own cost this amortises
  auto const begin = clock::now();
  for (int run = 0;; ++run) {
    auto const run_begin = clock::now();
    for (int i = 0; i < count; ++i)
      parallel::ops::matmul(stream, view(c), parallel::matrix_view<T const>(view(a)),
                            parallel::matrix_view<T const>(view(b)), {.transpose_b = true});
    stream.synchronize();
    auto const run_end = clock::now();
    double const spent = std::chrono::duration<double>(run_end - run_begin).count();
    if (run > 0) best = std::max(best, count * 2.0 * n * n * n / spent);  // the first run warms up
    if (run > 0 && std::chrono::duration<double>(run_end - begin).count() > seconds) return best;
    if (spent < 5e-3) count *= 2;
  }
}

/// The peak FLOP/s of products of T that the device states; 0 where it states none.
template <class T, class Device>
[[nodiscard]] double stated_peak(Device const& device) {
  if constexpr (requires { device.peak_flops(parallel::dtype_of<T>); })
    return device.peak_flops(parallel::dtype_of<T>);
  else
    return 0;
}

/// The peak FLOP/s of products of T on this device: the stated peak, else the rate measured within
/// about `seconds`.
template <class T, class Device>
[[nodiscard]] double peak_rate(Device const& device, typename Device::stream_type& stream,
                               double seconds = 0.5) {
  if (double const stated = stated_peak<T>(device); stated > 0) return stated;
  if constexpr (requires { Device(device.compute_options()); }) {
    Device const measuring_device(
        device.compute_options());  // its memory does not count as the run's
    return measure_matmul_rate<T>(measuring_device, stream, seconds);
  } else {
    return measure_matmul_rate<T>(device, stream, seconds);
  }
}

/// The largest of all ranks' values. Collective.
[[nodiscard]] double max_over_ranks(double value, parallel::any_communicator& comm,
                                    parallel::host::stream& exchanges);

/// Every rank's value, by rank. Collective.
[[nodiscard]] std::vector<double> values_by_rank(double value, parallel::any_communicator& comm,
                                                 parallel::host::stream& exchanges);

/// Whether this rank represents its device among the ranks that share the device: it is the lowest
/// of the ranks whose devices have the same identity(). Devices without an identity (CPUs) are not
/// shared: each rank computes on its own cores. Collective.
template <class Device>
[[nodiscard]] bool represents_device(Device const& device, parallel::any_communicator& comm,
                                     parallel::host::stream& exchanges) {
  if constexpr (requires { device.identity(); }) {
    auto const identities = gather_texts(comm, exchanges, device.identity());
    return std::ranges::find(identities, device.identity()) - identities.begin() == comm.rank();
  } else {
    return true;
  }
}

/// The sum of the peak FLOP/s of all ranks' devices, each device counted once: `configured_peak`
/// per device where it is given, else peak_rate. Collective.
template <class T, class Device>
[[nodiscard]] double total_peak_rate(Device const& device, typename Device::stream_type& stream,
                                     std::optional<double> configured_peak,
                                     parallel::any_communicator& comm,
                                     parallel::host::stream& exchanges, double seconds = 0.5) {
  double sum = 0;
  // a shared device is measured by one rank, while the others wait
  if (represents_device(device, comm, exchanges))
    sum = configured_peak ? *configured_peak : peak_rate<T>(device, stream, seconds);
  comm.all_reduce(exchanges, std::span<double>(&sum, 1), parallel::reduction::sum).wait();
  return sum;
}

/// The peak of all devices of a run. A measured peak is measured again during the run and the
/// larger rate counts, since other work on the machine may have slowed the first measurement down.
/// The peak is never less than the rate that the run itself has reached.
class watched_peak {
 public:
  static constexpr double seconds = 0.1;  ///< duration of a later measurement
  static constexpr std::string_view measured = "measured matrix products";
  static constexpr std::string_view configured = "gpu_flops_available";

  /// `source`: where `flops` come from, for messages. `remeasure_rate`: measures again for about
  /// `seconds` (collective); empty where the peak was not measured. `cost`: the seconds that
  /// this is expected to take, until it has been done.
  watched_peak(double flops, std::string source, std::function<double()> remeasure_rate = {},
               double cost = seconds)
      : flops_(flops),
        first_(flops),
        source_(std::move(source)),
        remeasure_rate_(std::move(remeasure_rate)),
        cost_(cost) {}

  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] std::string const& source() const { return source_; }

  /// Takes the rate of the run's last batches, in FLOP/s. Returns a note the first time that the
  /// rate is above the peak.
  [[nodiscard]] std::string observe(double rate);

  /// Collective, after the `batch`-th batch of this program (from 1): measures again after batches
  /// whose number is a power of two, if the measurement costs rank 0 less than 2 % of the `trained`
  /// seconds since the last one; 10 % if rank 0 doubts the peak.
  void update(std::int64_t batch, double trained, double rate, parallel::any_communicator& comm,
              parallel::host::stream& exchanges);

  /// Collective, at the end of a run that did `rate` FLOP/s in the `trained` seconds.
  void finish(double trained, double rate, parallel::any_communicator& comm,
              parallel::host::stream& exchanges);

 private:
  void remeasure(double trained, double rate, parallel::any_communicator& comm,
                 parallel::host::stream& exchanges);

  double flops_;
  double first_;
  std::string source_;
  std::function<double()> remeasure_rate_;
  bool exceeded_ = false;
  double cost_;      // seconds of a measurement
  double last_ = 0;  // trained seconds at the last measurement
};

/// Watches total_peak_rate. Collective; the arguments must outlive the result.
template <class T, class Device>
[[nodiscard]] watched_peak watch_peak(Device const& device, typename Device::stream_type& stream,
                                      std::optional<double> configured_peak,
                                      parallel::any_communicator& comm,
                                      parallel::host::stream& exchanges) {
  auto const begin = std::chrono::steady_clock::now();
  double const flops = total_peak_rate<T>(device, stream, configured_peak, comm, exchanges);
  double const cost =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bool const measures = !configured_peak && stated_peak<T>(device) == 0;
  if (max_over_ranks(measures ? 1 : 0, comm, exchanges) == 0)
    return {flops, configured_peak ? std::string(watched_peak::configured) : "data sheet"};
  return {flops, std::string(watched_peak::measured),
          [&device, &stream, &comm, &exchanges] {
            return total_peak_rate<T>(device, stream, std::nullopt, comm, exchanges,
                                      watched_peak::seconds);
          },
          cost};
}

}  // namespace mpt
