#include <mpt/train/report/slow_rank.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <parallel/comm/texts.hpp>

namespace mpt {
namespace {

/// Adds what a node tells of itself, under its number.
void add_load(named_numbers& loads, named_numbers const& load, std::size_t node) {
  for (auto const& [name, value] : load)
    loads.emplace_back(fmt::format("node{}/{}", node, name), value);
}

}  // namespace

std::optional<slow_rank> find_slow_rank(std::span<double const> waited, std::span<int const> work,
                                        double seconds) {
  std::optional<slow_rank> out;
  for (std::size_t rank = 0; rank < waited.size(); ++rank) {
    std::vector<double> peer_waits;
    for (std::size_t peer = 0; peer < waited.size(); ++peer)
      if (peer != rank && work[peer] == work[rank]) peer_waits.push_back(waited[peer]);
    if (peer_waits.empty()) continue;
    auto const middle =
        peer_waits.begin() + static_cast<std::ptrdiff_t>((peer_waits.size() - 1) / 2);
    std::ranges::nth_element(peer_waits, middle);
    double const lost = *middle - waited[rank];
    if (lost > seconds / 5 && (!out || lost > out->lost)) out = {rank, lost};
  }
  return out;
}

rank_findings slow_rank_watch::look(parallel::any_communicator& comm, parallel::host::stream& s,
                                    double device_bytes,
                                    std::function<named_numbers()> const& load) {
  if (count_ < batches) return {};
  auto const own_load = load && is_first_of_node_ ? load() : named_numbers();
  bool const is_alone = comm.size() == 1;
  rank_findings out;
  if (is_alone || !waited_) {
    count_ = 0;
    if (is_alone) out.device_bytes = {device_bytes};
    add_load(out.loads, own_load, 0);
    return out;
  }
  auto const own_measurement = fmt::format("{} {} {} {} {} {}", in_exchanges_, work_, seconds_,
                                           device_bytes, nlohmann::json(own_load).dump(), machine_);
  std::vector<double> waited;
  std::vector<int> work;
  std::vector<std::string> machines;
  double seconds = 0;
  std::size_t nodes = 0;
  for (auto const& text : parallel::gather_texts(comm, s, own_measurement)) {
    auto rest = std::string_view(text);
    auto const word = [&] {
      auto const end = rest.find(' ');
      return std::string(std::exchange(rest, rest.substr(end + 1)).substr(0, end));
    };
    waited.push_back(std::stod(word()));
    work.push_back(std::stoi(word()));
    seconds = std::max(seconds, std::stod(word()));
    out.device_bytes.push_back(std::stod(word()));
    auto const node_load = nlohmann::json::parse(word()).get<named_numbers>();
    if (std::ranges::find(machines, rest) == machines.end())
      add_load(out.loads, node_load, nodes++);
    machines.emplace_back(rest);
  }
  is_first_of_node_ = std::ranges::find(machines, machine_) - machines.begin() == comm.rank();
  count_ = 0;
  in_exchanges_ = seconds_ = 0;
  auto const slow = find_slow_rank(waited, work, seconds);
  auto const last = std::exchange(last_, slow ? std::optional(slow->rank) : std::nullopt);
  if (!slow || last_ == last || seconds < least_seconds) return out;
  out.note = fmt::format(
      "rank {} on {} is slow: the last {} batches took {:.3g} s, of which it waited {:.3g} s for "
      "others, and half of those with the same work {:.3g} s or more for it",
      slow->rank, machines[slow->rank], batches, seconds, waited[slow->rank],
      waited[slow->rank] + slow->lost);
  return out;
}

}  // namespace mpt
