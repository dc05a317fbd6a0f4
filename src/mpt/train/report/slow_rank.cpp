#include <mpt/train/report/slow_rank.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <parallel/comm/texts.hpp>
#include <parallel/core/machine_name.hpp>

namespace mpt {

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
                                    double device_bytes) {
  if (count_ < batches) return {};
  bool const is_alone = comm.size() == 1;
  if (is_alone || !waited_) {
    count_ = 0;
    return {"", is_alone ? std::vector{device_bytes} : std::vector<double>()};
  }
  auto const own_measurement = fmt::format("{} {} {} {} {}", in_exchanges_, work_, seconds_,
                                           device_bytes, parallel::machine_name());
  rank_findings out;
  std::vector<double> waited;
  std::vector<int> work;
  std::vector<std::string> machines;
  double seconds = 0;
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
    machines.emplace_back(rest);
  }
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
