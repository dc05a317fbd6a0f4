// network_check: measures before a run how fast ranks reach each other inside a machine and between
// machines, and which ranks compute slowly.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/network/network_link.hpp>
#include <parallel/comm/network/network_ring.hpp>
#include <parallel/comm/network/timed_collectives.hpp>
#include <parallel/comm/texts.hpp>

namespace parallel {

/// Measurements of a network, the same on all ranks. Rates are bus bandwidths (bus_factor) of
/// all_gather in the slowest group, in bytes per second; 0 where no group has two ranks.
struct network_measurements {
  std::vector<std::string> machines;  ///< of each rank
  std::vector<double> work;           ///< work that each rank computes in a second, in any unit
  double inside_machine = 0;          ///< between the ranks of a machine
  double between_machines = 0;        ///< between machines, among ranks of the same local rank
  std::vector<double> arrival_rates;  ///< at each rank from its predecessor (ranks_before), or 0
  double copy_rate = 0;               ///< memory copies of the slowest rank; 0: not measured
  std::uint64_t wrong_elements = 0;   ///< number of elements that arrived with a wrong value
  network_link link;                  ///< of rank 0's machine
};

namespace detail {

/// Bytes per second of copies in memory that the host reaches, the best of four.
template <class Device>
[[nodiscard]] double measure_copy_rate(Device& device, std::size_t bytes) {
  auto const source = device.template allocate_zeroed<std::uint8_t>(bytes);
  auto const target = device.template allocate_zeroed<std::uint8_t>(bytes);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    device.upload(target.span(), source.span());
    std::chrono::duration<double> const spent = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes) / std::max(1e-9, spent.count()));
  }
  return best;
}

/// Times `call` among `ranks` ranks with growing sizes up to its own size, as long as a call takes
/// little time. Returns the last size in bytes and its timing, with the wrong elements of all
/// sizes. Collective.
template <class Timed>
[[nodiscard]] std::pair<std::size_t, collective_timing> time_growing(Timed& timed,
                                                                     collective_call call,
                                                                     double seconds,
                                                                     std::size_t ranks) {
  auto const min_bytes = std::max(std::size_t{16} << 10, std::size_t{64} * ranks);
  growing_size size(call.bytes, seconds, min_bytes);
  std::uint64_t wrong = 0;
  for (;;) {
    call.bytes = size.bytes();
    auto timing = timed.time(call, 0).value();
    wrong += timing.wrong;
    if (!size.may_grow(timing.seconds) && timing.seconds < seconds) {  // too short to be exact
      timing = timed.time(call, seconds).value();
      wrong += timing.wrong;
    }
    if (size.grow(timing.seconds)) continue;
    timing.wrong = wrong;
    return {call.bytes, timing};
  }
}

}  // namespace detail

/// Times all_gathers of `bytes` on `device` over `exchanges`, inside the machines and between them.
/// `comm` has the same ranks in the same order and serves host memory. `machine` is the name of
/// this rank's machine, `work` how much the rank computes in a second, `interface` the network
/// interface that reaches other machines, if that is known. On a slow network smaller messages are
/// timed, so that the check takes seconds there too. Collective.
template <device Device, communicator Comm, communicator Exchanges>
[[nodiscard]] network_measurements check_network(Device& device, Comm& comm, Exchanges& exchanges,
                                                 std::string const& machine, double work,
                                                 std::string const& interface = {},
                                                 std::size_t bytes = std::size_t{8} << 20) {
  require(exchanges.rank() == comm.rank() && exchanges.size() == comm.size(),
          "check_network: rank ", comm.rank(), " of ", comm.size(), " is rank ", exchanges.rank(),
          " of ", exchanges.size(), " where exchanges are timed");
  constexpr double seconds = 0.1;  // for each measurement
  network_measurements measured;
  typename Comm::stream_type s;
  measured.machines = gather_texts(comm, s, machine);
  measured.work.resize(measured.machines.size());
  comm.all_gather(s, std::span<double>(measured.work), std::span<double const>(&work, 1)).wait();

  auto const local_rank = [local_ranks = local_ranks(measured.machines)](int rank) {
    return local_ranks[static_cast<std::size_t>(rank)];
  };
  auto const first_rank_of_machine = [machines = measured.machines](int rank) {
    auto const self = machines.begin() + rank;
    return static_cast<int>(std::find(machines.begin(), self, *self) - machines.begin());
  };
  auto const slowest_rate = [&](Exchanges& sub_communicator, coloring const& colors,
                                char const* name) {
    auto rate = std::numeric_limits<double>::infinity();
    auto const time = [&](auto&&... communicators) {
      if (sub_communicator.size() == 1) return;
      timed_collectives<std::int32_t, Device, Exchanges, Comm> timed(device, communicators...,
                                                                     bytes);
      collective_call const call{.kind = operation_kind::all_gather, .bytes = bytes};
      auto const timing = detail::time_growing(timed, call, seconds,
                                               static_cast<std::size_t>(sub_communicator.size()));
      rate = bus_factor(call.kind, sub_communicator.size()) * static_cast<double>(timing.first) /
             timing.second.seconds;
      if (sub_communicator.rank() == 0) measured.wrong_elements += timing.second.wrong;
    };
    if constexpr (std::same_as<Comm, Exchanges>)
      time(sub_communicator);
    else
      time(sub_communicator, comm.split(colors, name));
    comm.all_reduce(s, std::span<double>(&rate, 1), reduction::min).wait();
    return rate == std::numeric_limits<double>::infinity() ? 0 : rate;
  };
  {
    coloring const colors(first_rank_of_machine);
    auto sub_communicator = exchanges.split(colors, "machine");
    measured.inside_machine = slowest_rate(sub_communicator, colors, "machine");
  }
  coloring const colors(local_rank);
  auto sub_communicator = exchanges.split(colors, "network");
  measured.between_machines = slowest_rate(sub_communicator, colors, "network");
  double const arriving = arriving_rate(device, sub_communicator, bytes, 2 * seconds);
  measured.arrival_rates.resize(measured.machines.size());
  comm.all_gather(s, std::span<double>(measured.arrival_rates),
                  std::span<double const>(&arriving, 1))
      .wait();
  if constexpr (Device::host_reaches_memory) {
    measured.copy_rate = detail::measure_copy_rate(device, bytes);
    comm.all_reduce(s, std::span<double>(&measured.copy_rate, 1), reduction::min).wait();
  }
  comm.all_reduce(s, std::span<std::uint64_t>(&measured.wrong_elements, 1), reduction::sum).wait();
  if (comm.rank() == 0) measured.link = fastest_link("/sys", interface);
  return measured;
}

/// The same with `comm` for all exchanges.
template <device Device, communicator Comm>
[[nodiscard]] network_measurements check_network(Device& device, Comm& comm,
                                                 std::string const& machine, double work,
                                                 std::string const& interface = {},
                                                 std::size_t bytes = std::size_t{8} << 20) {
  return check_network(device, comm, comm, machine, work, interface, bytes);
}

}  // namespace parallel
