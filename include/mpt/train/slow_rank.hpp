// slow_rank: finds the rank that holds the others up. Ranks that do the same work wait for each
// other in exchanges. A slow rank (a hot processor, a neighbour on its machine) is the last to
// begin each exchange, so that it hardly waits while the others wait for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/machine_name.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// A rank and the time for which the ranks with the same work have waited for it.
struct slow_rank {
  std::size_t rank;
  double
      lost;  // seconds: the (lower) median wait of the ranks with the same work, less its own wait
  friend bool operator==(slow_rank const&, slow_rank const&) = default;
};

/// The rank that holds up the ranks with the same work the longest; nothing where that is less than
/// a fifth of `seconds`. `waited`: seconds in exchanges by rank; `work`: ranks with equal numbers
/// do the same work.
[[nodiscard]] inline std::optional<slow_rank> find_slow_rank(std::span<double const> waited,
                                                             std::span<int const> work,
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

/// Looks for a slow rank every 50 batches.
class slow_rank_watch {
 public:
  static constexpr int batches = 50;

  /// `waited`: returns the seconds that this rank's exchanges have taken so far (from its flight
  /// recorder); if it is empty (on every rank), nothing is measured. `work`: as for find_slow_rank.
  slow_rank_watch(std::function<double()> waited, int work)
      : waited_(std::move(waited)), work_(work) {}

  /// Calls train(), which trains a batch, and measures its time.
  template <class F>
  auto time_batch(F&& train) {
    auto const begin = std::chrono::steady_clock::now();
    double const waited_before = waited_ ? waited_() : 0;
    auto out = train();
    if (waited_) in_exchanges_ += waited_() - waited_before;
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++count_;
    return out;
  }

  /// Collective, after each batch: a note on a slow rank, the same on every rank; mostly "". Cost:
  /// every 50th call gathers one line of text per rank.
  [[nodiscard]] std::string describe_slow_rank(parallel::any_communicator& comm,
                                               parallel::host::stream& s) {
    if (!waited_ || count_ < batches || comm.size() == 1) return {};
    auto const own_measurement =
        fmt::format("{} {} {} {}", in_exchanges_, work_, seconds_, parallel::machine_name());
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
      machines.emplace_back(rest);
    }
    count_ = 0;
    in_exchanges_ = seconds_ = 0;
    auto const slow = find_slow_rank(waited, work, seconds);
    auto const last = std::exchange(last_, slow ? std::optional(slow->rank) : std::nullopt);
    if (!slow || last_ == last || seconds < least_seconds) return {};
    return fmt::format(
        "rank {} on {} is slow: the last {} batches took {:.3g} s, of which it waited {:.3g} s for "
        "others, and half of those with the same work {:.3g} s or more for it",
        slow->rank, machines[slow->rank], batches, seconds, waited[slow->rank],
        waited[slow->rank] + slow->lost);
  }

 private:
  static constexpr double least_seconds = 2;  // chance makes ranks wait too

  std::function<double()> waited_;
  int work_;
  int count_ = 0;
  double in_exchanges_ = 0, seconds_ = 0;
  std::optional<std::size_t> last_;  // the slow rank of the last note
};

}  // namespace mpt
