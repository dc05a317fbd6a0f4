// What preflight=true does before a run: the ranks' network and their devices are measured, and
// what follows for the run is said.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <mpt/train/matmul_rate.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/network_check.hpp>
#include <parallel/comm/network_ring.hpp>

namespace mpt {

/// Times products of T on every device at once, and exchanges of its memory by all ranks over
/// `exchanges`, about a second in all. `comm` connects the same ranks, or is the same; `machine` is
/// what this rank's is called; `interface` the network interface that machines are reached by,
/// where that is known. Collective.
template <class T, class Device, parallel::communicator Exchanges>
[[nodiscard]] parallel::network_measurements preflight(Device& device,
                                                       parallel::any_communicator& comm,
                                                       Exchanges& exchanges,
                                                       std::string const& machine,
                                                       std::string const& interface = {}) {
  typename Device::stream_type stream(device.compute_options());
  parallel::host::stream of_host;
  comm.barrier(of_host).wait();
  double const work = measure_matmul_rate<T>(device, stream, 0.2);
  return parallel::check_network(device, comm, exchanges, machine, work, interface);
}

namespace detail {

/// "4.81 MB/s": three digits, and the unit that fits.
[[nodiscard]] inline std::string rate_text(double bytes_per_second) {
  constexpr char const* units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  double value = bytes_per_second;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

/// The ranks that other machines reach slowly, or that reach them slowly; the first of many.
[[nodiscard]] inline std::vector<std::string> slow_ranks_said(
    parallel::network_measurements const& m) {
  constexpr std::size_t most = 8;
  auto const name = [&](int rank) {
    return fmt::format("rank {} (host {})", rank, m.machines[static_cast<std::size_t>(rank)]);
  };
  std::vector<std::string> lines;
  if (m.arrival_rates.size() != m.machines.size()) return lines;
  auto const slow = parallel::slow_ranks(parallel::ranks_before(m.machines), m.arrival_rates);
  for (auto const& one : slow) {
    if (lines.size() == most) {
      lines.push_back(
          fmt::format("slow: and {} more ranks of {}", slow.size() - most, m.machines.size()));
      break;
    }
    auto const what = one.from < 0 ? name(one.rank) + " exchanges with other machines"
                                   : name(one.from) + " sends to " + name(one.rank);
    lines.push_back(fmt::format("slow: {} at {}, the others at {}", what, rate_text(one.rate),
                                rate_text(one.median_rate)));
  }
  return lines;
}

/// Between whom machines exchange: the two, where there are no more.
[[nodiscard]] inline std::string exchanging(parallel::network_measurements const& m) {
  if (m.machines.size() != 2) return "machines exchange";
  return fmt::format("rank 0 (host {}) and rank 1 (host {}) exchange", m.machines[0],
                     m.machines[1]);
}

/// Machines that exchange slowly: than what their connection can, and, where none says that, than
/// any network that is meant for training.
[[nodiscard]] inline std::vector<std::string> slow_machines_said(
    parallel::network_measurements const& m) {
  constexpr double gigabit = 125e6;
  if (m.between_machines <= 0) return {};
  if (m.between_machines < 0.2 * m.link.bytes_per_second)
    return {fmt::format("slow: {} at {}, {:.3g} % of what {} ({}{}) can; do they use it?",
                        exchanging(m), rate_text(m.between_machines),
                        100 * m.between_machines / m.link.bytes_per_second, m.link.name,
                        m.link.infiniband ? "InfiniBand or RoCE, " : "",
                        rate_text(m.link.bytes_per_second))};
  if (m.between_machines < 0.4 * gigabit)
    return {fmt::format("slow: {} at {}, less than half of what Gigabit Ethernet carries",
                        exchanging(m), rate_text(m.between_machines))};
  return {};
}

}  // namespace detail

/// What to tell a person: rates first, then a line for each thing that is not as it should be.
[[nodiscard]] inline std::vector<std::string> describe(parallel::network_measurements const& m) {
  using detail::rate_text;
  std::map<std::string, int> machines;
  for (auto const& machine : m.machines) ++machines[machine];
  auto first = fmt::format("network: {} ranks on {} machine{}", m.machines.size(), machines.size(),
                           machines.size() == 1 ? "" : "s");
  if (m.inside_machine > 0) first += ", " + rate_text(m.inside_machine) + " inside";
  if (m.between_machines > 0) first += ", " + rate_text(m.between_machines) + " between";
  std::vector<std::string> lines{first};

  if (m.wrong_elements > 0)
    lines.push_back(
        fmt::format("wrong: {} numbers arrived otherwise than they were sent", m.wrong_elements));
  if (m.inside_machine > 0 && m.inside_machine < 0.02 * m.copy_rate)
    lines.push_back(fmt::format(
        "slow: ranks of one machine exchange at {:.1f} % of the rate of copying memory ({}); is "
        "shared memory switched off between them?",
        100 * m.inside_machine / m.copy_rate, rate_text(m.copy_rate)));
  for (auto&& said : {detail::slow_machines_said(m), detail::slow_ranks_said(m)})
    lines.insert(lines.end(), said.begin(), said.end());
  if (m.inside_machine > 0 && m.between_machines > 0)
    lines.push_back(
        m.inside_machine >= 2 * m.between_machines
            ? fmt::format(
                  "advice: inside is {:.1f} times as fast as between: shard weights inside a "
                  "machine where its memory holds them (sharding_strategy: HYBRID_SHARD)",
                  m.inside_machine / m.between_machines)
            : "advice: between is about as fast as inside: shard weights over all ranks");

  auto sorted = m.work;
  std::ranges::sort(sorted);
  double const usual = sorted.empty() ? 0 : sorted[sorted.size() / 2];
  for (std::size_t rank = 0; rank < m.work.size(); ++rank)
    if (m.work[rank] < 0.8 * usual)
      lines.push_back(fmt::format("slow: rank {} on {} computes at {:.0f} % of the usual rate",
                                  rank, m.machines[rank], 100 * m.work[rank] / usual));
  return lines;
}

}  // namespace mpt
