// The rate at which devices multiply matrices: the peak that utilisation is measured against.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
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

/// The peak FLOP/s of products of T that the device states; 0: it states none.
template <class T, class Device>
[[nodiscard]] double stated_peak(Device const& device) {
  if constexpr (requires { device.peak_flops(parallel::dtype_of<T>); })
    return device.peak_flops(parallel::dtype_of<T>);
  else
    return 0;
}

/// The peak FLOP/s of products of T on this device: what it states, else what is measured within
/// about `seconds`.
template <class T, class Device>
[[nodiscard]] double peak_rate(Device const& device, typename Device::stream_type& stream,
                               double seconds = 0.5) {
  if (double const stated = stated_peak<T>(device); stated > 0) return stated;
  if constexpr (requires { Device(device.compute_options()); }) {
    Device const apart(device.compute_options());  // whose memory does not count as the run's
    return measure_matmul_rate<T>(apart, stream, seconds);
  } else {
    return measure_matmul_rate<T>(device, stream, seconds);
  }
}

/// The largest of all ranks' values. Collective.
[[nodiscard]] inline double max_over_ranks(double value, parallel::any_communicator& comm,
                                           parallel::host::stream& exchanges) {
  comm.all_reduce(exchanges, std::span<double>(&value, 1), parallel::reduction::max).wait();
  return value;
}

/// Whether this rank stands for its device among the ranks that share it: the lowest of those whose
/// devices have the same identity(). Devices without one, CPUs, are not shared: ranks compute on
/// cores of their own. Collective.
template <class Device>
[[nodiscard]] bool represents_device(Device const& device, parallel::any_communicator& comm,
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
[[nodiscard]] double total_peak_rate(Device const& device, typename Device::stream_type& stream,
                                     std::optional<double> told, parallel::any_communicator& comm,
                                     parallel::host::stream& exchanges, double seconds = 0.5) {
  double sum = 0;
  // a shared device is measured by one rank, while the others wait
  if (represents_device(device, comm, exchanges))
    sum = told ? *told : peak_rate<T>(device, stream, seconds);
  comm.all_reduce(exchanges, std::span<double>(&sum, 1), parallel::reduction::sum).wait();
  return sum;
}

/// The peak of all devices of a run. One that was measured is measured again while the run goes on
/// and the larger counts, since what else the machine did may have slowed the first measurement
/// down; and it is never less than what the run itself was seen to do.
class watched_peak {
 public:
  static constexpr double seconds = 0.1;  // of a later measurement
  static constexpr std::string_view measured = "measured matrix products";
  static constexpr std::string_view configured = "gpu_flops_available";

  /// `source`: where `flops` come from, as a reader is told. `again`: measures again for about
  /// `seconds`; collective; none where the peak was not measured.
  watched_peak(double flops, std::string source, std::function<double()> again = {})
      : flops_(flops),
        first_(flops),
        source_(std::move(source)),
        remeasure_rate_(std::move(again)) {}

  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] std::string const& source() const { return source_; }

  /// The run's last batches did so many FLOP/s. Returns what there is to say of it, once.
  [[nodiscard]] std::string observe(double rate) {
    if (!(rate > flops_)) return {};
    bool const is_first = !std::exchange(exceeded_, true);
    if (!remeasure_rate_)
      return is_first
                 ? fmt::format(
                       "note: MFU is above 100 %: the run does {} FLOP/s, but its devices "
                       "together {} ({}); {}",
                       console::count(rate), console::count(flops_), source_,
                       source_ == configured ? "correct callbacks.speed_monitor.gpu_flops_available"
                                             : "its formula counts attention that is masked, which "
                                               "throughput/device/mfu_causal does not")
                 : std::string();
    flops_ = rate;
    source_ = "what the run itself has done";
    return is_first ? fmt::format(
                          "note: the run does {} FLOP/s, more than the {} of matrix products "
                          "measured at its start, when the machine did something else too; MFU is "
                          "of the most that was seen, and measured again",
                          console::count(rate), console::count(first_))
                    : std::string();
  }

  /// Collective, after the run's `batch`-th batch here (from 1): measures again after batches that
  /// are powers of two, where rank 0 has trained for long enough that it costs less than 2 % of the
  /// `trained` seconds since the last time, or doubts the peak.
  void remeasure_if_due(std::int64_t batch, double trained, double rate,
                        parallel::any_communicator& comm, parallel::host::stream& exchanges) {
    if (!remeasure_rate_ || !std::has_single_bit(static_cast<std::uint64_t>(batch))) return;
    remeasure(rate, trained - last_ > 50 * seconds, comm, exchanges);
    last_ = trained;
  }

  /// Collective, at the end of a run that did `rate` FLOP/s.
  void finish(double rate, parallel::any_communicator& comm, parallel::host::stream& exchanges) {
    if (remeasure_rate_) remeasure(rate, false, comm, exchanges);
    static_cast<void>(observe(rate));
  }

 private:
  void remeasure(double rate, bool is_time, parallel::any_communicator& comm,
                 parallel::host::stream& exchanges) {
    constexpr double doubtful = 0.9;  // of a peak, which training does not reach
    bool const asks = comm.rank() == 0 && (is_time || exceeded_ || rate > doubtful * flops_);
    if (max_over_ranks(asks ? 1 : 0, comm, exchanges) == 0) return;
    double const found = remeasure_rate_();
    if (found <= flops_) return;
    flops_ = found;
    source_ = measured;
  }

  double flops_;
  double first_;
  std::string source_;
  std::function<double()> remeasure_rate_;
  bool exceeded_ = false;
  double last_ = 0;  // trained seconds when it was measured last
};

/// total_peak_rate, watched. Collective; the arguments must outlive it.
template <class T, class Device>
[[nodiscard]] watched_peak watch_peak(Device const& device, typename Device::stream_type& stream,
                                      std::optional<double> told, parallel::any_communicator& comm,
                                      parallel::host::stream& exchanges) {
  double const flops = total_peak_rate<T>(device, stream, told, comm, exchanges);
  bool const measures = !told && stated_peak<T>(device) == 0;
  if (max_over_ranks(measures ? 1 : 0, comm, exchanges) == 0)
    return {flops, told ? std::string(watched_peak::configured) : "data sheet"};
  return {flops, std::string(watched_peak::measured), [&device, &stream, &comm, &exchanges] {
            return total_peak_rate<T>(device, stream, std::nullopt, comm, exchanges,
                                      watched_peak::seconds);
          }};
}

}  // namespace mpt
