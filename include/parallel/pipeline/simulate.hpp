// simulate: simulates a schedule in time and finds its flaws.
//
// F(s, m) waits for F(s-1, m); I(s, m) for I(s+1, m) (or B) and F(s, m); W(s, m) for I(s, m). Every
// rank executes its list in order. A schedule that cannot continue before its end is a deadlock,
// whatever the timing, since its order is fixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// Times of each action at one stage; transfer: of an activation or its gradient to another rank.
struct costs {
  int forward = 1;
  int backward_input = 1;
  int backward_weight = 1;
  int transfer = 0;

  [[nodiscard]] constexpr int time_of(action_kind kind) const {
    switch (kind) {
      case action_kind::forward: return forward;
      case action_kind::backward_input: return backward_input;
      case action_kind::backward_weight: return backward_weight;
      case action_kind::backward: return backward_input + backward_weight;
    }
    return 0;
  }
};

/// The flaw of an action: it occurs twice, it is on a rank without its stage, it precedes its
/// inputs on the same rank, it is missing, or it waits for ever.
enum class flaw : std::uint8_t { none, twice, misplaced, too_early, missing, deadlock };

/// The times at which a schedule's actions run, or the flaw for which they cannot.
struct timeline {
  flaw problem = flaw::none;
  int rank = 0;      ///< of the problem
  action culprit{};  ///< the action that has the problem
  int makespan = 0;
  std::vector<int> peak =
      {};  ///< by rank: maximum number of live microbatch activations of a stage
  std::vector<std::vector<int>> starts = {};  ///< indexed as by_rank

  [[nodiscard]] constexpr bool is_good() const { return problem == flaw::none; }
};

namespace detail {

/// The times at which the results of (stage, microbatch) exist; -1: not yet.
class progress {
 public:
  static constexpr int not_computed = -1;

  PARALLELLM_VECTOR_CONSTEXPR explicit progress(schedule const& s)
      : microbatches_(s.microbatches),
        forward_(static_cast<std::size_t>(s.stages() * s.microbatches), not_computed),
        input_(forward_),
        weight_(forward_) {}

  PARALLELLM_VECTOR_CONSTEXPR int& forward(int stage, int m) {
    return forward_[index_of(stage, m)];
  }
  PARALLELLM_VECTOR_CONSTEXPR int& input(int stage, int m) { return input_[index_of(stage, m)]; }
  PARALLELLM_VECTOR_CONSTEXPR int& weight(int stage, int m) { return weight_[index_of(stage, m)]; }

 private:
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::size_t index_of(int stage, int m) const {
    return static_cast<std::size_t>(stage * microbatches_ + m);
  }
  int microbatches_;
  std::vector<int> forward_, input_, weight_;
};

/// The earliest start of an action as far as its inputs determine it, or progress::never.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR int ready(schedule const& s, progress& results,
                                                    action const& a, costs cost) {
  auto const arrival_time = [&](int time, int producer) {
    return time == progress::not_computed || s.rank_of(producer) == s.rank_of(a.stage)
               ? time
               : time + cost.transfer;
  };
  switch (a.kind) {
    case action_kind::forward:
      return a.stage == 0 ? 0
                          : arrival_time(results.forward(a.stage - 1, a.microbatch), a.stage - 1);
    case action_kind::backward_weight: return results.input(a.stage, a.microbatch);
    case action_kind::backward_input:
    case action_kind::backward: {
      int const forward_time = results.forward(a.stage, a.microbatch);
      if (forward_time == progress::not_computed || a.stage == s.stages() - 1) return forward_time;
      int const next = arrival_time(results.input(a.stage + 1, a.microbatch), a.stage + 1);
      return next == progress::not_computed ? next : std::max(forward_time, next);
    }
  }
  return progress::not_computed;
}

PARALLELLM_VECTOR_CONSTEXPR void finish(progress& results, action const& a, int time) {
  if (a.kind == action_kind::forward) results.forward(a.stage, a.microbatch) = time;
  if (a.kind == action_kind::backward_input || a.kind == action_kind::backward)
    results.input(a.stage, a.microbatch) = time;
  if (a.kind == action_kind::backward_weight || a.kind == action_kind::backward)
    results.weight(a.stage, a.microbatch) = time;
}

/// Checks all that does not depend on time: each action occurs once, on its rank, after its inputs
/// on that rank.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR timeline inspect(schedule const& s) {
  timeline result;
  progress seen(s);
  auto const blame = [&](flaw problem, int rank, action const& a) {
    if (result.is_good()) result = {.problem = problem, .rank = rank, .culprit = a};
  };
  for (int rank = 0; rank < s.ranks; ++rank)
    for (action const& a : s.by_rank[static_cast<std::size_t>(rank)]) {
      if (a.stage < 0 || a.stage >= s.stages() || a.microbatch < 0 ||
          a.microbatch >= s.microbatches || s.rank_of(a.stage) != rank) {
        blame(flaw::misplaced, rank, a);
        continue;
      }
      bool const forward = seen.forward(a.stage, a.microbatch) != progress::not_computed;
      bool const input = seen.input(a.stage, a.microbatch) != progress::not_computed;
      bool const weight = seen.weight(a.stage, a.microbatch) != progress::not_computed;
      bool const is_repeated = a.kind == action_kind::forward           ? forward
                               : a.kind == action_kind::backward_weight ? weight
                                                                        : input;
      if (is_repeated) blame(flaw::twice, rank, a);
      if (s.forward_only && a.kind != action_kind::forward) blame(flaw::misplaced, rank, a);
      if (a.kind == action_kind::backward_weight ? !input
                                                 : a.kind != action_kind::forward && !forward)
        blame(flaw::too_early, rank, a);
      finish(seen, a, 0);
    }
  for (int stage = 0; stage < s.stages(); ++stage)
    for (int m = 0; m < s.microbatches; ++m) {
      int const rank = s.rank_of(stage);
      if (seen.forward(stage, m) == progress::not_computed)
        blame(flaw::missing, rank, {action_kind::forward, stage, m});
      if (s.forward_only) continue;
      if (seen.input(stage, m) == progress::not_computed)
        blame(flaw::missing, rank, {action_kind::backward_input, stage, m});
      if (seen.weight(stage, m) == progress::not_computed)
        blame(flaw::missing, rank, {action_kind::backward_weight, stage, m});
    }
  return result;
}

}  // namespace detail

/// Simulates the schedule in time. Cost: actions × ranks at most.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR timeline simulate(schedule const& s, costs cost = {}) {
  timeline result = detail::inspect(s);
  if (!result.is_good()) return result;
  auto const ranks = static_cast<std::size_t>(s.ranks);
  std::vector<std::size_t> next(ranks, 0);
  std::vector<int> clock(ranks, 0);
  std::vector<int> live_count(ranks, 0);
  result.peak.assign(ranks, 0);
  result.starts.resize(ranks);
  detail::progress results(s);
  for (bool has_progressed = true; has_progressed;) {
    has_progressed = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const& list = s.by_rank[rank];
      for (; next[rank] < list.size(); ++next[rank]) {
        action const& a = list[next[rank]];
        int const inputs = detail::ready(s, results, a, cost);
        if (inputs == detail::progress::not_computed) break;
        int const start = std::max(clock[rank], inputs);
        clock[rank] = start + cost.time_of(a.kind);
        detail::finish(results, a, clock[rank]);
        result.starts[rank].push_back(start);
        if (a.kind == action_kind::forward)
          result.peak[rank] = std::max(result.peak[rank], ++live_count[rank]);
        if (a.kind == action_kind::backward_weight || a.kind == action_kind::backward ||
            s.forward_only)
          --live_count[rank];
        has_progressed = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (next[rank] < s.by_rank[rank].size())
      return {.problem = flaw::deadlock,
              .rank = static_cast<int>(rank),
              .culprit = s.by_rank[rank][next[rank]]};
    result.makespan = std::max(result.makespan, clock[rank]);
  }
  return result;
}

/// "2F7": stage, letter, microbatch, as PyTorch writes actions.
[[nodiscard]] inline std::string to_string(action const& a) {
  return concat(a.stage, letter_of(a.kind), a.microbatch);
}

/// Throws an error of one sentence when the schedule is incomplete or cannot run to its end.
inline void check(schedule const& s) {
  auto const timeline_found = simulate(s);
  constexpr std::string_view descriptions[] = {"",
                                               "comes twice",
                                               "is not this rank's stage or microbatch",
                                               "comes before what it needs on the same rank",
                                               "never comes",
                                               "waits for ever"};
  require(timeline_found.is_good(), "schedule ", s.name, " of ", s.ranks, " ranks and ",
          s.microbatches, " microbatches: on rank ", timeline_found.rank, " action ",
          to_string(timeline_found.culprit), ' ',
          descriptions[static_cast<std::size_t>(timeline_found.problem)]);
}

}  // namespace parallel::pipeline
