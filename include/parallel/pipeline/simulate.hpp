// simulate: runs a schedule in time, and finds what is wrong with it.
//
// F(s, m) waits for F(s-1, m); I(s, m) for I(s+1, m) (or B) and F(s, m); W(s, m) for I(s, m). Every
// rank works through its list in order. A schedule that can go on no more before its end is a
// deadlock, whatever the timing, since its order is fixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// Time of each action at one stage; transfer: of an activation or its gradient to another rank.
struct costs {
  int forward = 1;
  int backward_input = 1;
  int backward_weight = 1;
  int transfer = 0;

  [[nodiscard]] constexpr int of(action_kind kind) const {
    switch (kind) {
      case action_kind::forward: return forward;
      case action_kind::backward_input: return backward_input;
      case action_kind::backward_weight: return backward_weight;
      case action_kind::backward: return backward_input + backward_weight;
    }
    return 0;
  }
};

/// What is wrong: an action that comes twice, on a rank without its stage, before what it needs
/// on the same rank, that never comes, or that waits for ever.
enum class flaw : std::uint8_t { none, twice, misplaced, too_early, missing, deadlock };

struct timeline {
  flaw problem = flaw::none;
  int rank = 0;      // where the problem is
  action culprit{};  // which action has it
  int makespan = 0;
  std::vector<int> peak = {};  // by rank: microbatch activations alive at most, a stage's as 1
  std::vector<std::vector<int>> starts = {};  // as by_rank

  [[nodiscard]] constexpr bool good() const { return problem == flaw::none; }
};

namespace detail {

/// Times at which the results of (stage, microbatch) exist; -1: not yet.
class progress {
 public:
  static constexpr int never = -1;

  PARALLELLM_VECTOR_CONSTEXPR explicit progress(schedule const& of)
      : microbatches_(of.microbatches),
        forward_(static_cast<std::size_t>(of.stages() * of.microbatches), never),
        input_(forward_),
        weight_(forward_) {}

  PARALLELLM_VECTOR_CONSTEXPR int& forward(int stage, int m) { return forward_[at(stage, m)]; }
  PARALLELLM_VECTOR_CONSTEXPR int& input(int stage, int m) { return input_[at(stage, m)]; }
  PARALLELLM_VECTOR_CONSTEXPR int& weight(int stage, int m) { return weight_[at(stage, m)]; }

 private:
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::size_t at(int stage, int m) const {
    return static_cast<std::size_t>(stage * microbatches_ + m);
  }
  int microbatches_;
  std::vector<int> forward_, input_, weight_;
};

/// When an action can start as far as its inputs go, or progress::never.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR int ready(schedule const& of, progress& done,
                                                    action const& a, costs cost) {
  auto const from = [&](int time, int other) {
    return time == progress::never || of.rank_of(other) == of.rank_of(a.stage)
               ? time
               : time + cost.transfer;
  };
  switch (a.kind) {
    case action_kind::forward:
      return a.stage == 0 ? 0 : from(done.forward(a.stage - 1, a.microbatch), a.stage - 1);
    case action_kind::backward_weight: return done.input(a.stage, a.microbatch);
    case action_kind::backward_input:
    case action_kind::backward: {
      int const own = done.forward(a.stage, a.microbatch);
      if (own == progress::never || a.stage == of.stages() - 1) return own;
      int const next = from(done.input(a.stage + 1, a.microbatch), a.stage + 1);
      return next == progress::never ? next : std::max(own, next);
    }
  }
  return progress::never;
}

PARALLELLM_VECTOR_CONSTEXPR void finish(progress& done, action const& a, int time) {
  if (a.kind == action_kind::forward) done.forward(a.stage, a.microbatch) = time;
  if (a.kind == action_kind::backward_input || a.kind == action_kind::backward)
    done.input(a.stage, a.microbatch) = time;
  if (a.kind == action_kind::backward_weight || a.kind == action_kind::backward)
    done.weight(a.stage, a.microbatch) = time;
}

/// Everything that can be seen without time: each action once, on its rank, after what it needs
/// there.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR timeline inspect(schedule const& of) {
  timeline out;
  progress seen(of);
  auto const blame = [&](flaw what, int rank, action const& a) {
    if (out.good()) out = {.problem = what, .rank = rank, .culprit = a};
  };
  for (int rank = 0; rank < of.ranks; ++rank)
    for (action const& a : of.by_rank[static_cast<std::size_t>(rank)]) {
      if (a.stage < 0 || a.stage >= of.stages() || a.microbatch < 0 ||
          a.microbatch >= of.microbatches || of.rank_of(a.stage) != rank) {
        blame(flaw::misplaced, rank, a);
        continue;
      }
      bool const forward = seen.forward(a.stage, a.microbatch) != progress::never;
      bool const input = seen.input(a.stage, a.microbatch) != progress::never;
      bool const weight = seen.weight(a.stage, a.microbatch) != progress::never;
      bool const again = a.kind == action_kind::forward           ? forward
                         : a.kind == action_kind::backward_weight ? weight
                                                                  : input;
      if (again) blame(flaw::twice, rank, a);
      if (of.forward_only && a.kind != action_kind::forward) blame(flaw::misplaced, rank, a);
      if (a.kind == action_kind::backward_weight ? !input
                                                 : a.kind != action_kind::forward && !forward)
        blame(flaw::too_early, rank, a);
      finish(seen, a, 0);
    }
  for (int stage = 0; stage < of.stages(); ++stage)
    for (int m = 0; m < of.microbatches; ++m) {
      int const rank = of.rank_of(stage);
      if (seen.forward(stage, m) == progress::never)
        blame(flaw::missing, rank, {action_kind::forward, stage, m});
      if (of.forward_only) continue;
      if (seen.input(stage, m) == progress::never)
        blame(flaw::missing, rank, {action_kind::backward_input, stage, m});
      if (seen.weight(stage, m) == progress::never)
        blame(flaw::missing, rank, {action_kind::backward_weight, stage, m});
    }
  return out;
}

}  // namespace detail

/// The schedule in time. Cost: actions × ranks at most.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR timeline simulate(schedule const& of, costs cost = {}) {
  timeline out = detail::inspect(of);
  if (!out.good()) return out;
  auto const ranks = static_cast<std::size_t>(of.ranks);
  std::vector<std::size_t> next(ranks, 0);
  std::vector<int> clock(ranks, 0);
  std::vector<int> alive(ranks, 0);
  out.peak.assign(ranks, 0);
  out.starts.resize(ranks);
  detail::progress done(of);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const& list = of.by_rank[rank];
      for (; next[rank] < list.size(); ++next[rank]) {
        action const& a = list[next[rank]];
        int const inputs = detail::ready(of, done, a, cost);
        if (inputs == detail::progress::never) break;
        int const start = std::max(clock[rank], inputs);
        clock[rank] = start + cost.of(a.kind);
        detail::finish(done, a, clock[rank]);
        out.starts[rank].push_back(start);
        if (a.kind == action_kind::forward)
          out.peak[rank] = std::max(out.peak[rank], ++alive[rank]);
        if (a.kind == action_kind::backward_weight || a.kind == action_kind::backward ||
            of.forward_only)
          --alive[rank];
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (next[rank] < of.by_rank[rank].size())
      return {.problem = flaw::deadlock,
              .rank = static_cast<int>(rank),
              .culprit = of.by_rank[rank][next[rank]]};
    out.makespan = std::max(out.makespan, clock[rank]);
  }
  return out;
}

/// "2F7": stage, letter, microbatch, as PyTorch writes actions.
[[nodiscard]] inline std::string text_of(action const& a) {
  return concat(a.stage, letter_of(a.kind), a.microbatch);
}

/// Throws one sentence when the schedule is incomplete or cannot run to its end.
inline void check(schedule const& of) {
  auto const result = simulate(of);
  constexpr std::string_view says[] = {"",
                                       "comes twice",
                                       "is not this rank's stage or microbatch",
                                       "comes before what it needs on the same rank",
                                       "never comes",
                                       "waits for ever"};
  require(result.good(), "schedule ", of.name, " of ", of.ranks, " ranks and ", of.microbatches,
          " microbatches: on rank ", result.rank, " action ", text_of(result.culprit), ' ',
          says[static_cast<std::size_t>(result.problem)]);
}

}  // namespace parallel::pipeline
