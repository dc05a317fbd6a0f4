// step_rendezvous: runs the lists of all ranks against each other, every stream as a queue, in a
// time of units.
//
// Messages and collectives begin when every rank that takes part has come to them, and are over
// everywhere at once. The thread that enqueues may be held up by what a computation waits for, so
// nothing of another stream begins before the computations that stand before it in the list are
// over. Whoever is kinder (sends that are buffered, a thread that runs ahead) does no worse,
// because the order of everything is fixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/train/step_check.hpp>

namespace parallel::train {

/// Units of time of a part's passes, and of an exchange with other ranks; the rest takes none.
struct step_costs {
  int forward = 2;
  int backward_input = 2;
  int backward_weight = 2;
  int exchange = 1;

  [[nodiscard]] int of(action const& a) const {
    if (a.exchanges()) return exchange;
    if (a.kind != action_kind::pass) return 0;
    switch (a.does) {
      case pass_kind::forward: return forward;
      case pass_kind::forward_backward: return forward + backward_input + backward_weight;
      case pass_kind::backward: return backward_input + backward_weight;
      case pass_kind::backward_input: return backward_input;
      case pass_kind::backward_weight: return backward_weight;
      default: return 0;
    }
  }
};

/// What is a queue on each rank: in one nothing begins before all that was enqueued there before is
/// over.
enum class step_queues : std::uint8_t {
  streams,   // each of them
  one_pass,  // the same, but gradients of weights that run beside are in that of computations
  one        // all together
};

namespace detail {

class step_rendezvous {
 public:
  /// Plans of all ranks of a pipeline, or of several that take part in the same collectives, one
  /// after another.
  explicit step_rendezvous(std::span<step_plan const> plans, step_costs cost = {},
                           step_queues queues = step_queues::streams)
      : plans_(plans), cost_(cost) {
    std::map<int, int> seen;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      step_plan const& of = plans[i];
      auto& r = ranks_.emplace_back();
      r.column = seen[of.rank]++;
      r.queues.resize(of.lanes());
      r.next.assign(of.lanes(), 0);
      r.came.assign(of.lanes(), 0);
      r.free.assign(of.lanes(), 0);
      r.usual.assign(of.lanes(), nullptr);
      r.ends.assign(of.actions.size(), -1);
      r.begins.assign(of.actions.size(), {});
      for (std::size_t k = 0; k < of.actions.size(); ++k)
        r.queues[queue_of(of.actions[k], queues)].push_back(static_cast<int>(k));
    }
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (auto const& a : plans[i].actions)
        if (a.exchanges()) {
          auto& at_it = rendezvous_of(i, a);
          if (at_it.members.empty() || at_it.members.back() != i) at_it.members.push_back(i);
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

  /// By plan and action: the times at which it is over, after run().
  [[nodiscard]] std::vector<int> const& ends(std::size_t plan) const { return ranks_[plan].ends; }
  /// The times at which it begins, and the places in an order in which all begins: the same of an
  /// exchange on every rank.
  [[nodiscard]] std::vector<std::pair<int, int>> const& begins(std::size_t plan) const {
    return ranks_[plan].begins;
  }

 private:
  [[nodiscard]] static std::size_t queue_of(action const& a, step_queues queues) {
    bool const first =
        queues == step_queues::one || (queues == step_queues::one_pass && a.on == lane::weights);
    return first ? 0 : static_cast<std::size_t>(a.on);
  }
  struct rendezvous {
    std::vector<std::size_t> members = {};
    std::vector<std::pair<std::size_t, std::size_t>> here = {};  // who came, and on which stream
    int start = 0;
  };
  struct one_rank {
    int column = 0;                             // of those with this place in the pipeline
    std::vector<std::vector<int>> queues = {};  // by stream: actions
    std::vector<std::size_t> next = {};
    std::vector<char> came = {};  // by stream: its head waits for other ranks
    std::vector<int> free = {};   // by stream: when
    std::vector<int> ends = {};   // by action; -1: not yet
    std::vector<std::pair<int, int>> begins = {};
    std::vector<rendezvous*> usual = {};  // by stream, but of ties and scalars
    bool queued = false;
  };
  /// Who takes part: a link and its direction, all ranks that hold the same stages, those that use
  /// a unit, or all.
  rendezvous& rendezvous_of(std::size_t i, action const& a) {
    step_plan const& of = plans_[i];
    int const column = ranks_[i].column;
    if (a.kind == action_kind::reduce_tied)
      return open_rendezvous_[{1, of.units[static_cast<std::size_t>(a.unit)].number, 0, column}];
    if (a.kind == action_kind::reduce_scalars) return open_rendezvous_[{2, 0, 0, 0}];
    auto& usual = ranks_[i].usual[static_cast<std::size_t>(a.on)];
    if (usual == nullptr) {
      bool const sends = pipeline::sends(a.edge);
      usual =
          a.kind == action_kind::edge
              ? &open_rendezvous_[{0, sends ? of.rank : a.peer, sends ? a.peer : of.rank, column}]
              : &open_rendezvous_[{3, of.rank, a.on, 0}];
    }
    return *usual;
  }

  [[nodiscard]] static auto signature(step_plan const& of, action const& a) {
    bool const message = a.kind == action_kind::edge;
    int const boundary = message ? a.boundary() : 0;
    int const unit = a.unit < 0 ? -1 : of.units[static_cast<std::size_t>(a.unit)].number;
    return std::tuple(a.kind, boundary, a.at.microbatch, unit, message ? part{} : a.of,
                      a.kind == action_kind::reduce_tied ? 0 : a.use, a.bucket);
  }

  [[nodiscard]] bool empty(std::size_t i, std::size_t lane) const {
    return ranks_[i].next[lane] == ranks_[i].queues[lane].size();
  }
  [[nodiscard]] int head(std::size_t i, std::size_t lane) const {
    return ranks_[i].queues[lane][ranks_[i].next[lane]];
  }
  [[nodiscard]] action const& at(std::size_t i, int number) const {
    return plans_[i].actions[static_cast<std::size_t>(number)];
  }

  void push(std::size_t i) {
    if (std::exchange(ranks_[i].queued, true)) return;
    work_.push_back(i);
  }

  [[nodiscard]] bool ready(std::size_t i, std::size_t lane) const {
    auto const& r = ranks_[i];
    if (empty(i, lane) || r.came[lane] != 0) return false;
    int const number = head(i, lane);
    if (lane != 0 && !empty(i, 0) && head(i, 0) < number) return false;
    auto const& a = at(i, number);
    return std::ranges::all_of(
        a.after, [&](int other) { return r.ends[static_cast<std::size_t>(other)] >= 0; });
  }

  void advance(std::size_t i) {
    for (bool moved = true; moved && problem_.good();) {
      moved = false;
      for (std::size_t lane = 0; lane < ranks_[i].queues.size(); ++lane)
        while (problem_.good() && ready(i, lane)) {
          moved = true;
          auto const& a = at(i, head(i, lane));
          if (a.exchanges())
            come(i, lane, a);
          else
            finish(i, lane, start_of(i, lane), cost_.of(a), ++order_);
        }
    }
  }

  [[nodiscard]] int start_of(std::size_t i, std::size_t lane) const {
    auto const& r = ranks_[i];
    int start = r.free[lane];
    for (int const other : at(i, head(i, lane)).after)
      start = std::max(start, r.ends[static_cast<std::size_t>(other)]);
    return start;
  }

  void come(std::size_t i, std::size_t lane, action const& a) {
    auto& r = ranks_[i];
    auto& at_it = rendezvous_of(i, a);
    if (!at_it.here.empty()) {
      auto const [other, its_lane] = at_it.here.front();
      if (signature(plans_[other], at(other, head(other, its_lane))) != signature(plans_[i], a)) {
        problem_ = {step_flaw::crossed, i, head(i, lane)};
        return;
      }
    }
    r.came[lane] = 1;
    at_it.start = std::max(at_it.here.empty() ? 0 : at_it.start, start_of(i, lane));
    at_it.here.emplace_back(i, lane);
    if (at_it.here.size() < at_it.members.size()) return;
    ++order_;
    for (auto const& [other, its_lane] : std::exchange(at_it.here, {})) {
      ranks_[other].came[its_lane] = 0;
      finish(other, its_lane, at_it.start, cost_.exchange, order_);
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
  std::vector<one_rank> ranks_;
  std::map<std::tuple<int, int, int, int>, rendezvous> open_rendezvous_;  // addresses stay
  std::vector<std::size_t> work_;
  int order_ = 0;  // how many have begun
  step_verdict problem_;
};

}  // namespace detail
}  // namespace parallel::train
