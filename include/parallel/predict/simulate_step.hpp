// simulate_step: the times at which the actions of a step run, on all ranks of a pipeline, by the
// step plans that the ranks would run and the duration of each action.
//
// A discrete-event simulation: the actions of a stream run in their order, each after the actions
// that it awaits; a receive ends when its message has arrived. Actions of one rank that use the
// same resource, such as a network connection, run one after the other, in the order in which they
// become ready. Exchanges that demand a share of their rank's processor slow down the computations
// beside them. Ranks that differ along another axis than the pipeline do the same
// at the same time, so that one of them stands for all.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <parallel/cluster/link_bytes.hpp>
#include <parallel/core/error.hpp>
#include <parallel/train/step/step_plan.hpp>

namespace parallel::predict {

/// What an action costs: its seconds where nothing runs beside it, the resource of its rank that it
/// uses alone (below resource_count; none: -1), the share of its rank's processor that it demands
/// while it runs, and the bytes that it sends to other ranks.
struct action_cost {
  double seconds = 0;
  int resource = -1;
  double demand = 0;
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
        if (ranks_[rank].missing[i] == 0) queue_.push({0, event_kind::ready, rank, i, 0});
    std::size_t planned = 0;
    for (auto const& plan : plans_) planned += plan.actions.size();
    while (!queue_.empty()) {
      auto const e = queue_.top();
      queue_.pop();
      if (e.kind == event_kind::ready) {
        request(e, cost(e.rank, plans_[e.rank].actions[e.action]));
        continue;
      }
      auto const running = find_running(e.rank, e.action);
      bool const is_void = running == ranks_[e.rank].running.end() || running->version != e.version;
      if (!is_void) end_action(e, running);
    }
    require(finished_ == planned,
            "a step whose actions wait for each other in a circle cannot be timed");
    return std::move(out_);
  }

 private:
  /// An action that has begun and not ended.
  struct running_action {
    std::size_t action = 0;
    action_cost cost = {};
    double left = 0;  // seconds at full speed
    int version = 0;  // of its end's event: an event with another is void
  };
  /// Of a computation beside exchanges that demand the whole processor.
  static constexpr double least_speed = 1e-3;
  struct rank_state {
    std::vector<std::vector<std::size_t>> lanes;  // by lane: its actions
    /// By action: the actions, of any rank, that wait for it.
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> waiting;
    std::vector<int> missing;   // by action: the number of actions that it still waits for
    std::vector<double> ready;  // by action: the latest end of those that it has waited for
    std::vector<running_action> running;
    double reached = 0;  // the time for which running_action::left is
    double exchange_speed = 1;
    double compute_speed = 1;
    /// By resource: the actions that want it, in the order in which they became ready; the first
    /// has it.
    std::array<std::deque<std::pair<std::size_t, action_cost>>, resource_count> users;
  };
  enum class event_kind : std::uint8_t { end, ready };
  struct event {
    double time = 0;
    event_kind kind = event_kind::ready;
    std::size_t rank = 0;
    std::size_t action = 0;
    int version = 0;

    friend auto operator<=>(event const&, event const&) = default;
  };

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

  [[nodiscard]] std::vector<running_action>::iterator find_running(std::size_t rank,
                                                                   std::size_t action) {
    return std::ranges::find(ranks_[rank].running, action, &running_action::action);
  }

  /// An action may begin: it does, or waits for the resource that it uses.
  void request(event const& e, action_cost const& cost) {
    if (cost.seconds <= 0) {
      out_.actions[e.rank][e.action].begin = e.time;
      return finish(e.rank, e.action, e.time);
    }
    if (cost.resource >= 0) {
      auto& users = ranks_[e.rank].users[static_cast<std::size_t>(cost.resource)];
      users.emplace_back(e.action, cost);
      if (users.size() > 1) return;
    }
    begin_action(e.time, e.rank, e.action, cost);
  }
  void begin_action(double time, std::size_t rank, std::size_t action, action_cost const& cost) {
    out_.actions[rank][action].begin = time;
    auto& state = ranks_[rank];
    advance(state, time);
    state.running.push_back({action, cost, cost.seconds});
    set_speed(rank);
    auto const& begun = state.running.back();
    if (begun.version == 0) push_end(rank, begun);  // the speed is the same as before
  }
  void end_action(event const& e, std::vector<running_action>::iterator ended) {
    auto& state = ranks_[e.rank];
    advance(state, e.time);
    int const resource = ended->cost.resource;
    state.running.erase(ended);
    set_speed(e.rank);
    finish(e.rank, e.action, e.time);
    if (resource < 0) return;
    auto& users = state.users[static_cast<std::size_t>(resource)];
    users.pop_front();
    if (!users.empty())
      begin_action(e.time, e.rank, users.front().first, action_cost(users.front().second));
  }

  /// Exchanges run at full speed while they demand less than the whole processor; computations,
  /// which demand all of it, divide what is left.
  [[nodiscard]] static double speed_of(rank_state const& state, running_action const& running) {
    if (running.cost.demand <= 0) return 1;
    return running.cost.demand < 1 ? state.exchange_speed : state.compute_speed;
  }
  /// Runs the actions of a rank on to a time.
  static void advance(rank_state& state, double time) {
    for (auto& running : state.running)
      running.left =
          std::max(0.0, running.left - (time - state.reached) * speed_of(state, running));
    state.reached = time;
  }
  /// Divides a rank's processor among its running actions anew.
  void set_speed(std::size_t rank) {
    auto& state = ranks_[rank];
    double exchanges = 0, computations = 0;
    for (auto const& running : state.running)
      (running.cost.demand < 1 ? exchanges : computations) += running.cost.demand;
    double const exchange_speed = 1 / std::max(1.0, exchanges);
    double const compute_speed = std::max(least_speed, 1 - exchanges) / std::max(1.0, computations);
    if (exchange_speed == state.exchange_speed && compute_speed == state.compute_speed) return;
    state.exchange_speed = exchange_speed;
    state.compute_speed = compute_speed;
    for (auto& running : state.running) {
      if (running.cost.demand <= 0) continue;
      ++running.version;
      push_end(rank, running);
    }
  }
  void push_end(std::size_t rank, running_action const& running) {
    auto const& state = ranks_[rank];
    queue_.push({state.reached + running.left / speed_of(state, running), event_kind::end, rank,
                 running.action, running.version});
  }

  void finish(std::size_t rank, std::size_t i, double end) {
    ++finished_;
    out_.actions[rank][i].end = end;
    out_.seconds = std::max(out_.seconds, end);
    for (auto const& [waiting_rank, waiting] : ranks_[rank].waiting[i]) {
      auto& state = ranks_[waiting_rank];
      state.ready[waiting] = std::max(state.ready[waiting], end);
      if (--state.missing[waiting] == 0)
        queue_.push({state.ready[waiting], event_kind::ready, waiting_rank, waiting, 0});
    }
  }

  std::span<train::step_plan const> plans_;
  std::vector<rank_state> ranks_;
  simulated_step out_;
  std::size_t finished_ = 0;
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
