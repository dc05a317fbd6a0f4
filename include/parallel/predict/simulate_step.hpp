// simulate_step: the times at which the actions of a step run, on all ranks of a pipeline, by the
// step plans that the ranks would run and the duration of each action.
//
// A discrete-event simulation: the actions of a stream run in their order, each after the actions
// that it awaits; a receive ends when its message has arrived. Actions of one rank that use the
// same resource, such as a network connection, run one after the other, in the order in which they
// become ready. Ranks that differ along another axis than the pipeline do the same at the same
// time, so that one of them stands for all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/cluster/link_bytes.hpp>
#include <parallel/core/error.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::predict {

/// What an action costs: its seconds, the resource of its rank that it uses alone (below
/// resource_count; none: -1), and the bytes that it sends to other ranks.
struct action_cost {
  double seconds = 0;
  int resource = -1;
  cluster::link_bytes sent = {};
};
/// The number of resources of a rank.
inline constexpr int resource_count = 3;

/// Seconds since the step began.
struct interval {
  double begin = 0;
  double end = 0;
};

/// The times of all actions of a step, from its first action on.
struct simulated_step {
  std::vector<std::vector<interval>> actions;  ///< by rank, then as in step_plan::actions
  double seconds = 0;                          ///< until the last action ends
};

namespace detail {

class step_simulation {
 public:
  explicit step_simulation(std::span<train::step_plan const> plans) : plans_(plans) {
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      auto const& plan = plans[rank];
      auto& state = ranks_.emplace_back();
      state.lanes.resize(plan.lanes());
      state.waiting.resize(plan.actions.size());
      state.missing.assign(plan.actions.size(), 0);
      state.ready.assign(plan.actions.size(), 0);
      out_.actions.emplace_back(plan.actions.size());
      for (std::size_t i = 0; i < plan.actions.size(); ++i) add_action(rank, i);
    }
    join_messages();
  }

  /// `cost`: action_cost(std::size_t rank, train::action const&).
  template <class Cost>
  simulated_step run(Cost const& cost) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (std::size_t i = 0; i < ranks_[rank].missing.size(); ++i)
        if (ranks_[rank].missing[i] == 0) queue_.push({0, rank, i});
    std::size_t finished = 0, planned = 0;
    for (auto const& plan : plans_) planned += plan.actions.size();
    for (; !queue_.empty(); ++finished) {
      auto const [ready, rank, i] = queue_.top();
      queue_.pop();
      action_cost const c = cost(rank, plans_[rank].actions[i]);
      double begin = ready;
      if (c.resource >= 0 && c.seconds > 0) {
        double& free = ranks_[rank].resource_free[static_cast<std::size_t>(c.resource)];
        begin = std::max(begin, free);
        free = begin + c.seconds;
      }
      finish(rank, i, {begin, begin + c.seconds});
    }
    require(finished == planned,
            "a step whose actions wait for each other in a circle cannot be timed");
    return std::move(out_);
  }

 private:
  struct rank_state {
    std::vector<std::vector<std::size_t>> lanes;  // by lane: its actions
    /// By action: the actions, of any rank, that wait for it.
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> waiting;
    std::vector<int> missing;   // by action: the number of actions that it still waits for
    std::vector<double> ready;  // by action: the latest end of those that it has waited for
    std::array<double, resource_count> resource_free{};
  };
  using event = std::tuple<double, std::size_t, std::size_t>;  // time, rank, action

  void add_action(std::size_t rank, std::size_t i) {
    auto const& a = plans_[rank].actions[i];
    auto& lane = ranks_[rank].lanes[static_cast<std::size_t>(a.lane)];
    if (!lane.empty()) wait_for(rank, lane.back(), rank, i);
    lane.push_back(i);
    for (int const other : a.dependencies) wait_for(rank, static_cast<std::size_t>(other), rank, i);
  }
  /// Makes action i of `rank` wait for action `other` of `other_rank`.
  void wait_for(std::size_t other_rank, std::size_t other, std::size_t rank, std::size_t i) {
    ranks_[other_rank].waiting[other].push_back({rank, i});
    ++ranks_[rank].missing[i];
  }
  /// The n-th receive from a rank waits for the n-th send of that rank to this one.
  void join_messages() {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank)
      for (std::size_t link = 0; link < plans_[rank].links.size(); ++link) {
        auto const [peer, sends] = plans_[rank].links[link];
        if (sends) continue;
        auto const other = static_cast<std::size_t>(peer);
        std::pair const opposite{static_cast<int>(rank), true};
        auto const found = std::ranges::find(plans_[other].links, opposite);
        require(found != plans_[other].links.end(), "rank ", rank, " receives from rank ", peer,
                ", which does not send to it");
        auto const sending_lane =
            train::lane::messages + static_cast<std::size_t>(found - plans_[other].links.begin());
        auto const& sent = ranks_[other].lanes[sending_lane];
        auto const& received = ranks_[rank].lanes[train::lane::messages + link];
        require(sent.size() == received.size(), "rank ", rank, " receives ", received.size(),
                " messages of rank ", peer, ", which sends ", sent.size());
        for (std::size_t n = 0; n < sent.size(); ++n) wait_for(other, sent[n], rank, received[n]);
      }
  }

  void finish(std::size_t rank, std::size_t i, interval times) {
    out_.actions[rank][i] = times;
    out_.seconds = std::max(out_.seconds, times.end);
    for (auto const& [waiting_rank, waiting] : ranks_[rank].waiting[i]) {
      auto& state = ranks_[waiting_rank];
      state.ready[waiting] = std::max(state.ready[waiting], times.end);
      if (--state.missing[waiting] == 0) queue_.push({state.ready[waiting], waiting_rank, waiting});
    }
  }

  std::span<train::step_plan const> plans_;
  std::vector<rank_state> ranks_;
  simulated_step out_;
  std::priority_queue<event, std::vector<event>, std::greater<>> queue_;
};

}  // namespace detail

/// Runs the steps of all ranks of a pipeline in time. `cost(rank, action)` returns the action_cost;
/// of a message the sender's counts, and a receive costs nothing. Throws `error` for plans that
/// cannot run. Cost: n log n in the number of actions of all ranks.
template <class Cost>
[[nodiscard]] simulated_step simulate_step(std::span<train::step_plan const> plans,
                                           Cost const& cost) {
  return detail::step_simulation(plans).run(cost);
}

}  // namespace parallel::predict
