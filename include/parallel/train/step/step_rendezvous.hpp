// step_rendezvous: simulates the lists of all ranks together, with every stream as a queue, in
// units of time.
//
// A message or collective begins when every rank that takes part has reached it, and completes at
// the same time on all of them. The thread that enqueues may be held up by what a computation waits
// for, so no action of another stream begins before the computations that precede it in the list
// are complete. Buffered sends or a thread that runs ahead can only finish earlier, because the
// order of all actions is fixed.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/train/step/step_check.hpp>

namespace parallel::train {

/// Units of time that a part's passes and an exchange with other ranks take; other actions take
/// none.
struct step_costs {
  int forward = 2;
  int backward_input = 2;
  int backward_weight = 2;
  int exchange = 1;

  [[nodiscard]] int duration(action const& a) const {
    if (a.exchanges()) return exchange;
    if (a.kind != action_kind::pass) return 0;
    switch (a.pass) {
      case pass_kind::forward: return forward;
      case pass_kind::forward_backward: return forward + backward_input + backward_weight;
      case pass_kind::backward: return backward_input + backward_weight;
      case pass_kind::backward_input: return backward_input;
      case pass_kind::backward_weight: return backward_weight;
      default: return 0;
    }
  }
};

/// The unit of ordering on a rank: work in one queue runs in the order in which it was enqueued.
enum class step_queues : std::uint8_t {
  streams,   // each stream is a queue
  one_pass,  // the same, but overlapped weight gradients are in the queue of computations
  one        // all streams share one queue
};

namespace detail {

class step_rendezvous {
 public:
  /// Takes the plans of all ranks of a pipeline, or those of several pipelines that take part in
  /// the same collectives, one pipeline after another.
  explicit step_rendezvous(std::span<step_plan const> plans, step_costs cost = {},
                           step_queues queues = step_queues::streams)
      : plans_(plans), cost_(cost) {
    std::map<int, int> rank_counts;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      step_plan const& plan = plans[i];
      auto& r = ranks_.emplace_back();
      r.column = rank_counts[plan.rank]++;
      r.queues.resize(plan.lanes());
      r.next.assign(plan.lanes(), 0);
      r.has_arrived.assign(plan.lanes(), 0);
      r.free.assign(plan.lanes(), 0);
      r.default_meeting.assign(plan.lanes(), nullptr);
      r.ends.assign(plan.actions.size(), -1);
      r.begins.assign(plan.actions.size(), {});
      for (std::size_t k = 0; k < plan.actions.size(); ++k)
        r.queues[queue_of(plan.actions[k], queues)].push_back(static_cast<int>(k));
    }
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (auto const& a : plans[i].actions)
        if (a.exchanges()) {
          auto& meeting_point = meeting_of(i, a);
          if (meeting_point.members.empty() || meeting_point.members.back() != i)
            meeting_point.members.push_back(i);
        }
  }

  step_verdict run() {
    for (std::size_t i = 0; i < plans_.size(); ++i) push(i);
    while (!work_.empty() && problem_.good()) {
      auto const i = work_.back();
      work_.pop_back();
      ranks_[i].queued = false;
      advance(i);
    }
    if (!problem_.good()) return problem_;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      int first = -1;
      for (std::size_t lane = 0; lane < ranks_[i].queues.size(); ++lane)
        if (!empty(i, lane) && (first < 0 || head(i, lane) < first)) first = head(i, lane);
      if (first >= 0) return {step_flaw::deadlock, i, first};
    }
    return {};
  }

  /// By plan and action: the time at which the action is complete, after run().
  [[nodiscard]] std::vector<int> const& ends(std::size_t plan) const { return ranks_[plan].ends; }
  /// By plan and action: the time at which the action begins, and its position in an order in which
  /// all actions begin, which is the same for an exchange on every rank.
  [[nodiscard]] std::vector<std::pair<int, int>> const& begins(std::size_t plan) const {
    return ranks_[plan].begins;
  }

 private:
  [[nodiscard]] static std::size_t queue_of(action const& a, step_queues queues) {
    bool const first =
        queues == step_queues::one || (queues == step_queues::one_pass && a.lane == lane::weights);
    return first ? 0 : static_cast<std::size_t>(a.lane);
  }
  struct meeting {
    std::vector<std::size_t> members = {};
    /// Plans that have arrived, and their streams.
    std::vector<std::pair<std::size_t, std::size_t>> arrivals = {};
    int start = 0;
  };
  struct rank_state {
    int column = 0;  // among the ranks with the same position in the pipeline
    std::vector<std::vector<int>> queues = {};  // by stream: its actions
    std::vector<std::size_t> next = {};
    std::vector<char> has_arrived = {};  // by stream: its first action waits for other ranks
    std::vector<int> free = {};          // by stream: the time from which it is free
    std::vector<int> ends = {};          // by action; -1: not complete
    std::vector<std::pair<int, int>> begins = {};
    /// By stream, for exchanges other than tied sums and scalars.
    std::vector<meeting*> default_meeting = {};
    bool queued = false;
  };
  /// The meeting of those who take part: both ends of a link in one direction, all ranks that hold
  /// the same stages, those that use a unit, or all ranks.
  meeting& meeting_of(std::size_t i, action const& a) {
    step_plan const& plan = plans_[i];
    int const column = ranks_[i].column;
    if (a.kind == action_kind::reduce_tied)
      return meetings_[{1, plan.unit_of(a).number, 0, column}];
    if (a.kind == action_kind::reduce_scalars) return meetings_[{2, 0, 0, 0}];
    auto& meeting_of_lane = ranks_[i].default_meeting[static_cast<std::size_t>(a.lane)];
    if (meeting_of_lane == nullptr) {
      if (a.kind == action_kind::edge) {
        auto const [peer, sends] = plan.link_at(a.lane);
        meeting_of_lane =
            &meetings_[{0, sends ? plan.rank : peer, sends ? peer : plan.rank, column}];
      } else {
        meeting_of_lane = &meetings_[{3, plan.rank, a.lane, 0}];
      }
    }
    return *meeting_of_lane;
  }

  [[nodiscard]] static auto signature(step_plan const& plan, action const& a) {
    bool const message = a.kind == action_kind::edge;
    int const boundary = message ? a.boundary() : 0;
    int const unit = a.unit ? plan.unit_of(a).number : -1;
    std::vector<std::pair<int, int>> bucket;
    for (auto const& member : a.bucket)
      bucket.emplace_back(plan.units[static_cast<std::size_t>(member.unit)].number, member.use);
    return std::tuple(a.kind, boundary, a.task.microbatch, unit, message ? part{} : a.model_part,
                      a.use, bucket);
  }

  [[nodiscard]] bool empty(std::size_t i, std::size_t lane) const {
    return ranks_[i].next[lane] == ranks_[i].queues[lane].size();
  }
  [[nodiscard]] int head(std::size_t i, std::size_t lane) const {
    return ranks_[i].queues[lane][ranks_[i].next[lane]];
  }
  [[nodiscard]] action const& action_at(std::size_t i, int number) const {
    return plans_[i].actions[static_cast<std::size_t>(number)];
  }

  void push(std::size_t i) {
    if (std::exchange(ranks_[i].queued, true)) return;
    work_.push_back(i);
  }

  [[nodiscard]] bool ready(std::size_t i, std::size_t lane) const {
    auto const& r = ranks_[i];
    if (empty(i, lane) || r.has_arrived[lane] != 0) return false;
    int const number = head(i, lane);
    if (lane != 0 && !empty(i, 0) && head(i, 0) < number) return false;
    auto const& a = action_at(i, number);
    return std::ranges::all_of(
        a.dependencies, [&](int other) { return r.ends[static_cast<std::size_t>(other)] >= 0; });
  }

  void advance(std::size_t i) {
    for (bool moved = true; moved && problem_.good();) {
      moved = false;
      for (std::size_t lane = 0; lane < ranks_[i].queues.size(); ++lane)
        while (problem_.good() && ready(i, lane)) {
          moved = true;
          auto const& a = action_at(i, head(i, lane));
          if (a.exchanges())
            arrive(i, lane, a);
          else
            finish(i, lane, start_of(i, lane), cost_.duration(a), ++order_);
        }
    }
  }

  [[nodiscard]] int start_of(std::size_t i, std::size_t lane) const {
    auto const& r = ranks_[i];
    int start = r.free[lane];
    for (int const other : action_at(i, head(i, lane)).dependencies)
      start = std::max(start, r.ends[static_cast<std::size_t>(other)]);
    return start;
  }

  void arrive(std::size_t i, std::size_t lane, action const& a) {
    auto& r = ranks_[i];
    auto& shared_meeting = meeting_of(i, a);
    if (!shared_meeting.arrivals.empty()) {
      auto const [other, other_lane] = shared_meeting.arrivals.front();
      if (signature(plans_[other], action_at(other, head(other, other_lane))) !=
          signature(plans_[i], a)) {
        problem_ = {step_flaw::crossed, i, head(i, lane)};
        return;
      }
    }
    r.has_arrived[lane] = 1;
    shared_meeting.start =
        std::max(shared_meeting.arrivals.empty() ? 0 : shared_meeting.start, start_of(i, lane));
    shared_meeting.arrivals.emplace_back(i, lane);
    if (shared_meeting.arrivals.size() < shared_meeting.members.size()) return;
    ++order_;
    for (auto const& [other, other_lane] : std::exchange(shared_meeting.arrivals, {})) {
      ranks_[other].has_arrived[other_lane] = 0;
      finish(other, other_lane, shared_meeting.start, cost_.exchange, order_);
      if (other != i) push(other);
    }
  }

  void finish(std::size_t i, std::size_t lane, int start, int cost, int order) {
    auto& r = ranks_[i];
    auto const number = static_cast<std::size_t>(head(i, lane));
    r.begins[number] = {start, order};
    r.free[lane] = r.ends[number] = start + cost;
    ++r.next[lane];
  }

  std::span<step_plan const> plans_;
  step_costs cost_;
  std::vector<rank_state> ranks_;
  std::map<std::tuple<int, int, int, int>, meeting> meetings_;  // addresses stay valid
  std::vector<std::size_t> work_;
  int order_ = 0;  // how many actions have begun
  step_verdict problem_;
};

}  // namespace detail
}  // namespace parallel::train
