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

namespace mpt {

/// Times products of T on every device at once, and exchanges of its memory by all ranks over
/// `exchanges`, about a second in all. `comm` connects the same ranks, or is the same; `machine` is
/// what this rank's is called. Collective.
template <class T, class Device, parallel::communicator Exchanges>
[[nodiscard]] parallel::network_measurements preflight(Device& device,
                                                       parallel::any_communicator& comm,
                                                       Exchanges& exchanges,
                                                       std::string const& machine) {
  typename Device::stream_type stream(device.compute_options());
  parallel::host::stream of_host;
  comm.barrier(of_host).wait();
  double const work = measure_matmul_rate<T>(device, stream, 0.2);
  return parallel::check_network(device, comm, exchanges, machine, work);
}

/// What to tell a person: rates first, then a line for each thing that is not as it should be.
[[nodiscard]] inline std::vector<std::string> describe(parallel::network_measurements const& m) {
  auto const rate = [](double bytes) { return fmt::format("{:.2f} GB/s", bytes / 1e9); };
  std::map<std::string, int> machines;
  for (auto const& machine : m.machines) ++machines[machine];
  auto first = fmt::format("network: {} ranks on {} machine{}", m.machines.size(), machines.size(),
                           machines.size() == 1 ? "" : "s");
  if (m.inside > 0) first += ", " + rate(m.inside) + " inside";
  if (m.between > 0) first += ", " + rate(m.between) + " between";
  std::vector<std::string> lines{first};

  if (m.wrong > 0)
    lines.push_back(
        fmt::format("wrong: {} numbers arrived otherwise than they were sent", m.wrong));
  if (m.inside > 0 && m.inside < 0.02 * m.copying)
    lines.push_back(fmt::format(
        "slow: ranks of one machine exchange at {:.1f} % of the rate of copying memory ({}); is "
        "shared memory switched off between them?",
        100 * m.inside / m.copying, rate(m.copying)));
  if (m.between > 0 && m.between < 0.2 * m.link.bytes_per_second)
    lines.push_back(fmt::format(
        "slow: machines exchange at {:.0f} % of what {} ({}{}) can; do they use it?",
        100 * m.between / m.link.bytes_per_second, m.link.name,
        m.link.infiniband ? "InfiniBand or RoCE, " : "", rate(m.link.bytes_per_second)));
  if (m.inside > 0 && m.between > 0)
    lines.push_back(
        m.inside >= 2 * m.between
            ? fmt::format(
                  "advice: inside is {:.1f} times as fast as between: shard weights inside a "
                  "machine where its memory holds them (sharding_strategy: HYBRID_SHARD)",
                  m.inside / m.between)
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
