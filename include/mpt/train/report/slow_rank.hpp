// slow_rank: finds the rank that holds the others up, and tells the memory of all and the load of
// their nodes. Ranks that do the same work wait for each other in exchanges. A slow rank (a hot
// processor, a neighbour on its machine) is the last to begin each exchange, so that it hardly
// waits while the others wait for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/train/report/system_load.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/core/machine_name.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// A rank and the time for which the ranks with the same work have waited for it.
struct slow_rank {
  std::size_t rank;
  double lost;  ///< seconds: the (lower) median wait of the ranks with the same work, less its own
                ///< wait
  friend bool operator==(slow_rank const&, slow_rank const&) = default;
};

/// The rank that holds up the ranks with the same work the longest; nothing where that is less than
/// a fifth of `seconds`. `waited`: seconds in exchanges by rank; `work`: ranks with equal numbers
/// do the same work.
[[nodiscard]] std::optional<slow_rank> find_slow_rank(std::span<double const> waited,
                                                      std::span<int const> work, double seconds);

/// The measurements that ranks exchange at an interval; the same on every rank.
struct rank_findings {
  std::string note;                  ///< on a slow rank; mostly ""
  std::vector<double> device_bytes;  ///< by rank; empty where the ranks have told nothing
  /// What the first rank of each node tells of it, as "node0/NAME"; nodes are numbered by their
  /// first ranks.
  named_numbers loads = {};
};

/// Looks for a slow rank every 50 batches.
class slow_rank_watch {
 public:
  static constexpr int batches = 50;

  /// `waited`: returns the seconds that this rank's exchanges have taken so far (from its flight
  /// recorder); if it is empty (on every rank), nothing is measured. `work`: as for find_slow_rank.
  /// `machine`: ranks that give the same name are on one node.
  slow_rank_watch(std::function<double()> waited, int work,
                  std::string machine = parallel::machine_name())
      : waited_(std::move(waited)), work_(work), machine_(std::move(machine)) {}

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

  /// Collective, after each batch. `device_bytes` and `load()`, which is called where this rank is
  /// the first of its node: what this rank tells the others. Cost: every 50th call gathers one
  /// line of text per rank, and no other call exchanges anything.
  [[nodiscard]] rank_findings look(parallel::any_communicator& comm, parallel::host::stream& s,
                                   double device_bytes,
                                   std::function<named_numbers()> const& load = {});

 private:
  static constexpr double least_seconds = 2;  // chance makes ranks wait too

  std::function<double()> waited_;
  int work_;
  std::string machine_;
  bool is_first_of_node_ = true;  // until the ranks have told their machines
  int count_ = 0;
  double in_exchanges_ = 0, seconds_ = 0;
  std::optional<std::size_t> last_;  // the slow rank of the last note
};

}  // namespace mpt
