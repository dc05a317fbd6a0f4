// measure_links: the links between ranks as a cluster's description states them, measured by
// exchanges of the ranks and by computations beside them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/cluster/network.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/network/network_ring.hpp>
#include <parallel/comm/network/timed_collectives.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace mpt {

/// The links of the ranks; none where no two ranks are joined by such a link.
struct measured_links {
  std::optional<parallel::cluster::link> inside;   ///< of a rank to those of its machine
  std::optional<parallel::cluster::link> between;  ///< of a rank to those of other machines
  double jitter = 0;                               ///< see cluster::jitter
};

namespace detail {

/// Products on a compute stream.
template <class T, class Device>
class compute_load {
 public:
  /// Finds how many products take `seconds`.
  compute_load(Device& device, double seconds)
      : stream_(device.compute_options()), memory_(device.template allocate<T>(3 * size * size)) {
    parallel::ops::fill(stream_, memory_.span(), T(0.5F));
    for (double spent = run(); spent < seconds && count_ < 1 << 16; spent = run()) count_ *= 2;
  }
  [[nodiscard]] int products() const { return count_; }
  /// Runs them and returns their seconds.
  [[nodiscard]] double run() {
    auto const part = [&](std::size_t i) {
      return parallel::matrix_view<T>(memory_.data() + i * size * size, {size, size});
    };
    stream_.synchronize();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count_; ++i)
      parallel::ops::matmul(stream_, part(0), parallel::matrix_view<T const>(part(1)),
                            parallel::matrix_view<T const>(part(2)));
    stream_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static constexpr std::size_t size = 512;
  typename Device::stream_type stream_;
  parallel::buffer<T> memory_;
  int count_ = 1;
};

/// The share of the device that exchanges of a group demand: by how much longer the same products
/// take beside exchanges, of which one takes `seconds`. Collective.
template <class T, class Device, parallel::communicator Comm, parallel::communicator Control>
[[nodiscard]] double measure_processor_share(Device& device, Comm& group, Control& control,
                                             std::size_t bytes, double seconds) {
  compute_load<T, Device> load(device, 0.2);
  parallel::comm_stream<Device, Comm> exchanges(parallel::comm_options<Comm>(device));
  auto memory = parallel::allocate_exchanged<T>(device, bytes / sizeof(T));
  auto const registered = parallel::register_memory(group, memory);
  double alone = std::min(load.run(), load.run());
  typename Control::stream_type host;
  control.all_reduce(host, std::span<double>(&alone, 1), parallel::reduction::max).wait();
  group.barrier(exchanges).wait();
  std::vector<typename Comm::request_type> pending;
  auto const calls = static_cast<int>(std::clamp(3 * alone / seconds, 2.0, 1000.0));
  for (int i = 0; i < calls; ++i)
    pending.push_back(group.all_reduce(exchanges, memory.span(), parallel::reduction::sum));
  double const beside = load.run();
  for (auto& request : pending) request.wait();
  return std::clamp(beside / alone - 1, 0.0, 0.99);
}

/// By how much longer the slowest rank takes for the same products than all do in the mean.
/// Collective.
template <class T, class Device>
[[nodiscard]] double measure_jitter(Device& device, parallel::any_communicator& control) {
  constexpr std::size_t count = 100;
  parallel::host::stream host;
  compute_load<T, Device> load(device, 0.005);
  std::vector<double> spent(count);
  control.barrier(host).wait();
  for (auto& seconds : spent) seconds = load.run() / load.products();
  auto slowest = spent, sums = spent;
  control.all_reduce(host, std::span(slowest), parallel::reduction::max).wait();
  control.all_reduce(host, std::span(sums), parallel::reduction::sum).wait();
  double const mean = std::accumulate(sums.begin(), sums.end(), 0.0) / control.size();
  return std::accumulate(slowest.begin(), slowest.end(), 0.0) / mean - 1;
}

/// The link between the ranks of a group. Collective.
template <class T, class Device, parallel::communicator Comm, parallel::communicator Control>
[[nodiscard]] parallel::cluster::link measure_link(Device& device, Comm& group, Control& control) {
  constexpr std::size_t largest = std::size_t{32} << 20;
  constexpr double long_call = 0.5;  // seconds after which no larger call is made
  parallel::timed_collectives<T, Device, Comm, Control> timed(device, group, control, largest);
  auto const seconds_of = [&](std::size_t bytes) {
    return timed
        .time({.kind = parallel::operation_kind::all_reduce, .bytes = bytes, .in_place = true}, 0.2)
        .value()
        .seconds;
  };
  double const n = group.size();
  double const empty = seconds_of(256 * static_cast<std::size_t>(group.size()));
  parallel::cluster::link out{.latency =
                                  empty / (2 * std::min(n - 1, 2 * std::ceil(std::log2(n))))};
  std::vector<std::pair<double, double>> rates;
  std::size_t bytes = std::size_t{16} << 10;
  double last = empty;
  for (; bytes <= largest && last < long_call; bytes *= 4) {
    last = seconds_of(bytes);
    double const sent = 2 * (n - 1) / n * static_cast<double>(bytes);
    rates.emplace_back(sent, sent / std::max(last - empty, 0.1 * last));
    out.rate = std::max(out.rate, rates.back().second);
  }
  for (auto& [sent, rate] : rates) rate /= out.rate;
  out.efficiency = parallel::cluster::rate_curve(std::move(rates));
  out.processor_share = measure_processor_share<T>(device, group, control, bytes / 4, last);
  return out;
}

}  // namespace detail

/// Measures the links between all ranks, of which `machine` names this one's machine. Takes some
/// seconds. Collective.
template <class T, class Device, parallel::communicator Exchanges>
[[nodiscard]] measured_links measure_links(Device& device, parallel::any_communicator& control,
                                           Exchanges& exchanges, std::string const& machine) {
  parallel::host::stream host;
  auto const machines = gather_texts(control, host, machine);
  auto const measure = [&](parallel::coloring const& colors,
                           char const* name) -> std::optional<parallel::cluster::link> {
    auto group = exchanges.split(colors, name);
    if (group.size() == 1) return std::nullopt;
    if constexpr (std::same_as<Exchanges, parallel::any_communicator>) {
      return detail::measure_link<T>(device, group, group);
    } else {
      auto control_group = control.split(colors, name);
      return detail::measure_link<T>(device, group, control_group);
    }
  };
  measured_links out;
  out.inside =
      measure(parallel::coloring([&](int rank) {
                auto const own = machines.begin() + rank;
                return static_cast<int>(std::find(machines.begin(), own, *own) - machines.begin());
              }),
              "machine");
  auto const local_ranks = parallel::local_ranks(machines);
  out.between = measure(
      parallel::coloring([&](int rank) { return local_ranks[static_cast<std::size_t>(rank)]; }),
      "network");
  if (control.size() > 1)
    out.jitter =
        detail::measure_jitter<T>(device, control) / std::pow(std::log2(control.size()), 0.8);
  return out;
}

}  // namespace mpt
