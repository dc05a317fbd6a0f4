#include <mpt/train/setup/preflight.hpp>

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

namespace mpt {
namespace {

/// Notes on the ranks whose exchanges with other machines are slow; at most eight.
[[nodiscard]] std::vector<std::string> slow_rank_notes(parallel::network_measurements const& m) {
  constexpr std::size_t max_lines = 8;
  auto const name = [&](int rank) {
    return fmt::format("rank {} (host {})", rank, m.machines[static_cast<std::size_t>(rank)]);
  };
  std::vector<std::string> lines;
  if (m.arrival_rates.size() != m.machines.size()) return lines;
  auto const slow = parallel::slow_ranks(parallel::ranks_before(m.machines), m.arrival_rates);
  for (auto const& rank_rate : slow) {
    if (lines.size() == max_lines) {
      lines.push_back(
          fmt::format("slow: and {} more ranks of {}", slow.size() - max_lines, m.machines.size()));
      break;
    }
    auto const exchange = rank_rate.from < 0
                              ? name(rank_rate.rank) + " exchanges with other machines"
                              : name(rank_rate.from) + " sends to " + name(rank_rate.rank);
    lines.push_back(fmt::format("slow: {} at {}, the others at {}", exchange,
                                detail::rate_text(rank_rate.rate),
                                detail::rate_text(rank_rate.median_rate)));
  }
  return lines;
}

/// The subject of a note on exchanges between machines; names the ranks where there are only two.
[[nodiscard]] std::string exchanging_machines(parallel::network_measurements const& m) {
  if (m.machines.size() != 2) return "machines exchange";
  return fmt::format("rank 0 (host {}) and rank 1 (host {}) exchange", m.machines[0],
                     m.machines[1]);
}

/// Notes on slow exchanges between machines: slower than their connection allows or, where its rate
/// is unknown, than any network that is meant for training.
[[nodiscard]] std::vector<std::string> slow_machine_notes(parallel::network_measurements const& m) {
  constexpr double gigabit = 125e6;
  if (m.between_machines <= 0) return {};
  if (m.between_machines < 0.2 * m.link.bytes_per_second)
    return {fmt::format("slow: {} at {}, {:.3g} % of what {} ({}{}) can; do they use it?",
                        exchanging_machines(m), detail::rate_text(m.between_machines),
                        100 * m.between_machines / m.link.bytes_per_second, m.link.name,
                        m.link.infiniband ? "InfiniBand or RoCE, " : "",
                        detail::rate_text(m.link.bytes_per_second))};
  if (m.between_machines < 0.4 * gigabit)
    return {fmt::format("slow: {} at {}, less than half of what Gigabit Ethernet carries",
                        exchanging_machines(m), detail::rate_text(m.between_machines))};
  return {};
}

}  // namespace

std::vector<std::string> describe(parallel::network_measurements const& m) {
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
  for (auto&& notes : {slow_machine_notes(m), slow_rank_notes(m)})
    lines.insert(lines.end(), notes.begin(), notes.end());
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

nlohmann::ordered_json to_json(parallel::network_measurements const& m) {
  auto const rate = [](double bytes_per_second) {
    return bytes_per_second > 0 ? nlohmann::ordered_json(bytes_per_second) : nullptr;
  };
  auto arrivals = nlohmann::ordered_json::array();
  for (double const arrival : m.arrival_rates) arrivals.push_back(rate(arrival));
  return {{"machines", m.machines},
          {"inside_machine", rate(m.inside_machine)},
          {"between_machines", rate(m.between_machines)},
          {"arrival_by_rank", std::move(arrivals)},
          {"copies_of_memory", rate(m.copy_rate)},
          {"work_by_rank", m.work},
          {"wrong_elements", m.wrong_elements},
          {"link", {{"name", m.link.name}, {"bytes_per_second", rate(m.link.bytes_per_second)}}},
          {"notes", describe(m)}};
}

}  // namespace mpt

namespace mpt::detail {

std::string rate_text(double bytes_per_second) {
  constexpr char const* units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  double value = bytes_per_second;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace mpt::detail
