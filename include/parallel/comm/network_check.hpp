// network_check: how fast ranks reach each other inside a machine and between machines, which of
// them compute slowly, and what follows for a run: asked before it begins.
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
#include <parallel/comm/network_link.hpp>
#include <parallel/comm/network_ring.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/comm/timed_collectives.hpp>

namespace parallel {

/// What a network did, the same on all ranks. Rates are bus bandwidths (bus_factor) of all_gather
/// in the slowest group, in bytes per second; 0 where no group has two ranks.
struct network_measurements {
  std::vector<std::string> machines;  // of each rank
  std::vector<double> work;           // of each rank: what it computes in a second, of any unit
  double inside = 0;                  // of a machine
  double between = 0;                 // ranks of the same number on each machine
  std::vector<double> arriving;       // at each rank from the one before it (ranks_before), or 0
  double copying = 0;                 // of memory by one rank, the slowest; 0 where nobody asked
  std::uint64_t wrong = 0;            // elements that arrived otherwise than they should
  network_link link;                  // of rank 0's machine
};

namespace detail {

/// Bytes per second of copies in memory that the host reaches, the best of a few.
template <class Device>
[[nodiscard]] double copying_rate(Device& device, std::size_t bytes) {
  auto const from = device.template allocate_zeroed<std::uint8_t>(bytes);
  auto const to = device.template allocate_zeroed<std::uint8_t>(bytes);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    device.upload(to.span(), from.span());
    std::chrono::duration<double> const spent = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes) / std::max(1e-9, spent.count()));
  }
  return best;
}

/// What `call` of so many ranks takes at the largest size, up to its own, that takes little: bytes,
/// seconds and what was wrong at any size. Collective.
template <class Timed>
[[nodiscard]] std::pair<std::size_t, collective_timing> time_growing(Timed& timed,
                                                                     collective_call call,
                                                                     double seconds,
                                                                     std::size_t ranks) {
  auto const least = std::max(std::size_t{16} << 10, std::size_t{64} * ranks);
  growing_size size(call.bytes, seconds, least);
  std::uint64_t wrong = 0;
  for (;;) {
    call.bytes = size.bytes();
    auto said = timed.time(call, 0).value();
    wrong += said.wrong;
    if (!size.may_grow(said.seconds) && said.seconds < seconds) {  // too short to be exact
      said = timed.time(call, seconds).value();
      wrong += said.wrong;
    }
    if (size.grow(said.seconds)) continue;
    said.wrong = wrong;
    return {call.bytes, said};
  }
}

}  // namespace detail

/// Times all_gathers of `bytes` on `device` over `exchanges`, inside the machines and between them.
/// `comm`: of the same ranks, in the same order, for what lies in the host's memory. `machine` is
/// what this rank's is called, `work` how much it computes in a second, `interface` the one that
/// machines are reached by, where that is known. On a slow network smaller
/// messages are timed, so that it takes seconds there too. Collective.
template <device Device, communicator Comm, communicator Exchanges>
[[nodiscard]] network_measurements check_network(Device& device, Comm& comm, Exchanges& exchanges,
                                                 std::string const& machine, double work,
                                                 std::string const& interface = {},
                                                 std::size_t bytes = std::size_t{8} << 20) {
  require(exchanges.rank() == comm.rank() && exchanges.size() == comm.size(),
          "check_network: rank ", comm.rank(), " of ", comm.size(), " is rank ", exchanges.rank(),
          " of ", exchanges.size(), " where exchanges are timed");
  constexpr double seconds = 0.1;  // of each number
  network_measurements out;
  typename Comm::stream_type s;
  out.machines = gather_texts(comm, s, machine);
  out.work.resize(out.machines.size());
  comm.all_gather(s, std::span<double>(out.work), std::span<double const>(&work, 1)).wait();

  auto const number_of = [numbers = numbers_on_machines(out.machines)](int rank) {
    return numbers[static_cast<std::size_t>(rank)];
  };
  auto const first_of = [machines = out.machines](int rank) {
    auto const self = machines.begin() + rank;
    return static_cast<int>(std::find(machines.begin(), self, *self) - machines.begin());
  };
  auto const rate_in = [&](Exchanges& part, coloring const& by, char const* name) {
    auto rate = std::numeric_limits<double>::infinity();
    auto const time = [&](auto&&... over) {
      if (part.size() == 1) return;
      timed_collectives<std::int32_t, Device, Exchanges, Comm> timed(device, over..., bytes);
      collective_call const call{.kind = operation_kind::all_gather, .bytes = bytes};
      auto const said =
          detail::time_growing(timed, call, seconds, static_cast<std::size_t>(part.size()));
      rate = bus_factor(call.kind, part.size()) * static_cast<double>(said.first) /
             said.second.seconds;
      if (part.rank() == 0) out.wrong += said.second.wrong;
    };
    if constexpr (std::same_as<Comm, Exchanges>)
      time(part);
    else
      time(part, comm.split(by, name));
    comm.all_reduce(s, std::span<double>(&rate, 1), reduction::min).wait();
    return rate == std::numeric_limits<double>::infinity() ? 0 : rate;
  };
  {
    coloring const by(first_of);
    auto part = exchanges.split(by, "machine");
    out.inside = rate_in(part, by, "machine");
  }
  coloring const by(number_of);
  auto part = exchanges.split(by, "network");
  out.between = rate_in(part, by, "network");
  double const arriving = arriving_rate(device, part, bytes, 2 * seconds);
  out.arriving.resize(out.machines.size());
  comm.all_gather(s, std::span<double>(out.arriving), std::span<double const>(&arriving, 1)).wait();
  if constexpr (Device::host_reaches_memory) {
    out.copying = detail::copying_rate(device, bytes);
    comm.all_reduce(s, std::span<double>(&out.copying, 1), reduction::min).wait();
  }
  comm.all_reduce(s, std::span<std::uint64_t>(&out.wrong, 1), reduction::sum).wait();
  if (comm.rank() == 0) out.link = fastest_link("/sys", interface);
  return out;
}

/// Over `comm` itself.
template <device Device, communicator Comm>
[[nodiscard]] network_measurements check_network(Device& device, Comm& comm,
                                                 std::string const& machine, double work,
                                                 std::string const& interface = {},
                                                 std::size_t bytes = std::size_t{8} << 20) {
  return check_network(device, comm, comm, machine, work, interface, bytes);
}

}  // namespace parallel
