// verify: proves of lowered plans, before anything runs, that no rank waits for ever and that no
// memory is used by two at once.
//
// Messages rendezvous here: a send is over when it is received, and may not begin before the
// receive has been posted; every stream is one first-in-first-out queue; a message is posted after
// the computations before it in the plan, as when one thread enqueues everything and itself waits
// for what those need. Whoever is kinder (sends that are buffered, streams that wait for each
// other) does no worse, because the order of everything is fixed. Of two steps that use the same
// memory, one of them writing, one must be over before the other begins by the rank's own streams
// and `after` alone, whatever the timing; and who reads finds the microbatch it wants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/plan.hpp>

namespace parallel::pipeline {

/// incomplete: the computations are not the schedule's. crossed: the two ends of a link disagree on
/// the next message. deadlock: the step waits for ever. race: it uses memory that an earlier step
/// may still be using. stale: it reads memory that holds something else.
enum class plan_flaw : std::uint8_t { none, incomplete, crossed, deadlock, race, stale };

struct plan_verdict {
  plan_flaw problem = plan_flaw::none;
  int rank = 0;  // where the problem is
  int step = 0;  // which of its plan's steps has it

  [[nodiscard]] constexpr bool good() const { return problem == plan_flaw::none; }
};

namespace detail {

/// Streams of a rank as numbers: 0 computes, then one for each peer and direction.
[[nodiscard]] constexpr std::size_t lane_of(step const& s) {
  if (!is_message(s.kind)) return 0;
  return 1 + 2 * static_cast<std::size_t>(s.peer) + (sends(s.kind) ? 1 : 0);
}
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::size_t lanes(plan const& of) {
  return 1 + 2 * static_cast<std::size_t>(of.ranks);
}

/// Follows every buffer of one rank through its plan.
class memory_check {
 public:
  PARALLELLM_VECTOR_CONSTEXPR memory_check(plan const& of, int stages)
      : of_(of), last_stage_(stages - 1), numbers_(lanes(of), lanes(of)) {
    for (step const& s : of.steps)
      if (auto& number = numbers_[lane_of(s)]; number == lanes(of)) number = lanes_used_++;
    order_.assign(of.steps.size() * lanes_used_, none);
    for (auto const& chunk : of.chunks) {
      auto const boundaries = static_cast<std::size_t>(chunk.boundaries);
      auto const slots = static_cast<std::size_t>(chunk.slots);
      chunks_.push_back({std::vector<buffer>(boundaries), std::vector<buffer>(boundaries),
                         std::vector<buffer>(slots), std::vector<buffer>(slots),
                         std::vector<buffer>(slots)});
    }
  }

  PARALLELLM_VECTOR_CONSTEXPR plan_verdict run() {
    std::vector<int> tip(lanes_used_, none);  // the last step so far on each lane
    for (std::size_t i = 0; i < of_.steps.size() && problem_ == plan_flaw::none; ++i) {
      step const& s = of_.steps[i];
      now_ = static_cast<int>(i);
      auto const join = [&](int other) {
        if (other == none) return;
        for (std::size_t lane = 0; lane < lanes_used_; ++lane)
          over_by(now_, lane) = std::max(over_by(now_, lane), over_by(other, lane));
      };
      auto const own = numbers_[lane_of(s)];
      join(tip[own]);
      for (int const other : s.after) join(other);
      over_by(now_, own) = tip[own] = now_;
      use(s);
    }
    return {problem_, of_.rank, now_};
  }

 private:
  static constexpr int none = -1;

  struct buffer {
    int holds = none;    // a microbatch
    int written = none;  // by a step
    std::vector<int> readers = {};
  };
  struct chunk_buffers {
    std::vector<buffer> input, input_gradient, kept, output, output_gradient;
  };

  /// The last step on a lane that is over when `step` begins, or is that step.
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR int& over_by(int step, std::size_t lane) {
    return order_[static_cast<std::size_t>(step) * lanes_used_ + lane];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool over(int step) {
    return step == none ||
           over_by(now_, numbers_[lane_of(of_.steps[static_cast<std::size_t>(step)])]) >= step;
  }

  PARALLELLM_VECTOR_CONSTEXPR void write(std::vector<buffer>& all, int number, int m) {
    buffer& b = all[static_cast<std::size_t>(number)];
    bool free = over(b.written);
    for (int const reader : b.readers) free = free && over(reader);
    if (!free) problem_ = plan_flaw::race;
    b = {m, now_};
  }
  PARALLELLM_VECTOR_CONSTEXPR void read(std::vector<buffer>& all, int number, int m) {
    buffer& b = all[static_cast<std::size_t>(number)];
    if (!over(b.written)) problem_ = plan_flaw::race;
    if (b.holds != m) problem_ = plan_flaw::stale;
    b.readers.push_back(now_);
  }

  PARALLELLM_VECTOR_CONSTEXPR chunk_buffers& chunk(int stage) {
    return chunks_[static_cast<std::size_t>(stage / of_.ranks)];
  }

  PARALLELLM_VECTOR_CONSTEXPR void use(step const& s) {
    microbatch_task const& at = s.at;
    int const m = at.microbatch;
    auto& own = chunk(at.stage);
    switch (s.kind) {
      case step_kind::compute: return compute(s.computes, at);
      case step_kind::receive_activation: return write(own.input, at.boundary, m);
      case step_kind::send_activation: return read(own.output, at.slot, m);
      case step_kind::receive_gradient: return write(own.output_gradient, at.slot, m);
      case step_kind::send_gradient: return read(own.input_gradient, at.boundary, m);
      case step_kind::copy_activation:
        read(chunk(at.stage - 1).output, of_.at(at.stage - 1, m).slot, m);
        return write(own.input, at.boundary, m);
      case step_kind::copy_gradient:
        read(own.input_gradient, at.boundary, m);
        return write(chunk(at.stage - 1).output_gradient, of_.at(at.stage - 1, m).slot, m);
    }
  }

  PARALLELLM_VECTOR_CONSTEXPR void compute(action_kind kind, microbatch_task const& at) {
    auto& own = chunk(at.stage);
    int const m = at.microbatch;
    if (at.stage > 0) read(own.input, at.boundary, m);
    if (kind == action_kind::forward) {
      write(own.kept, at.slot, m);
      if (at.stage != last_stage_) write(own.output, at.slot, m);
      return;
    }
    read(own.kept, at.slot, m);
    if (at.stage != last_stage_) read(own.output_gradient, at.slot, m);
    if (at.stage > 0 && kind != action_kind::backward_weight)
      write(own.input_gradient, at.boundary, m);
  }

  plan const& of_;
  int last_stage_;
  std::vector<chunk_buffers> chunks_;
  std::vector<std::size_t> numbers_;  // of the lanes that are used, by lane_of
  std::size_t lanes_used_ = 0;
  std::vector<int> order_;  // see over_by
  plan_flaw problem_ = plan_flaw::none;
  int now_ = 0;
};

/// Runs the plans of all ranks, every stream as a queue.
class rendezvous {
 public:
  PARALLELLM_VECTOR_CONSTEXPR explicit rendezvous(std::vector<plan> const& of) : of_(of) {
    for (plan const& p : of) {
      queues_.emplace_back(lanes(p));
      next_.emplace_back(lanes(p), 0);
      over_.emplace_back(p.steps.size(), 0);
      for (std::size_t i = 0; i < p.steps.size(); ++i)
        queues_.back()[lane_of(p.steps[i])].push_back(i);
      used_.emplace_back();
      for (std::size_t lane = 0; lane < lanes(p); ++lane)
        if (!queues_.back()[lane].empty()) used_.back().push_back(lane);
    }
  }

  PARALLELLM_VECTOR_CONSTEXPR plan_verdict run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < of_.size(); ++rank)
        for (std::size_t const lane : used_[rank])
          while (ready(rank, lane)) {
            step const& s = head(rank, lane);
            if (is_message(s.kind)) {
              auto const peer = static_cast<std::size_t>(s.peer);
              std::size_t const other = 1 + 2 * rank + (sends(s.kind) ? 0 : 1);
              if (!ready(peer, other)) break;
              step const& end = head(peer, other);
              if (s.boundary() != end.boundary() || s.at.microbatch != end.at.microbatch)
                return {plan_flaw::crossed, static_cast<int>(rank), number(rank, lane)};
              finish(peer, other);
            }
            finish(rank, lane);
            moved = true;
          }
    }
    for (std::size_t rank = 0; rank < of_.size(); ++rank)
      for (std::size_t const lane : used_[rank])
        if (next_[rank][lane] < queues_[rank][lane].size())
          return {plan_flaw::deadlock, static_cast<int>(rank), number(rank, lane)};
    return {};
  }

 private:
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR int number(std::size_t rank, std::size_t lane) const {
    return static_cast<int>(queues_[rank][lane][next_[rank][lane]]);
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR step const& head(std::size_t rank,
                                                             std::size_t lane) const {
    return of_[rank].steps[static_cast<std::size_t>(number(rank, lane))];
  }
  [[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool ready(std::size_t rank, std::size_t lane) const {
    if (next_[rank][lane] == queues_[rank][lane].size()) return false;
    // whoever enqueues may be held up by what a computation waits for (cuda::stream::wait)
    bool const computing = next_[rank][0] < queues_[rank][0].size();
    if (lane != 0 && computing && number(rank, 0) < number(rank, lane)) return false;
    for (int const other : head(rank, lane).after)
      if (over_[rank][static_cast<std::size_t>(other)] == 0) return false;
    return true;
  }
  PARALLELLM_VECTOR_CONSTEXPR void finish(std::size_t rank, std::size_t lane) {
    over_[rank][static_cast<std::size_t>(number(rank, lane))] = 1;
    ++next_[rank][lane];
  }

  std::vector<plan> const& of_;
  std::vector<std::vector<std::vector<std::size_t>>> queues_;  // by rank and lane: steps
  std::vector<std::vector<std::size_t>> used_;                 // by rank: the lanes that have steps
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::vector<char>> over_;  // by rank and step
};

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR bool same_computations(std::vector<action> const& wanted,
                                                                 plan const& has) {
  std::size_t next = 0;
  for (step const& s : has.steps) {
    if (s.kind != step_kind::compute) continue;
    if (next == wanted.size()) return false;
    if (wanted[next++] != action{s.computes, s.at.stage, s.at.microbatch}) return false;
  }
  return next == wanted.size();
}

}  // namespace detail

/// Whether the plans of all ranks do what the schedule says, on any timing. Cost: steps × ranks.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR plan_verdict verify(schedule const& of,
                                                              std::vector<plan> const& plans) {
  require(std::ssize(plans) == of.ranks, "verify: ", of.name, " has ", of.ranks, " ranks, but ",
          plans.size(), " plans are given");
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    if (!detail::same_computations(of.by_rank[rank], plans[rank]))
      return {plan_flaw::incomplete, static_cast<int>(rank), 0};
  for (plan const& one : plans)
    if (auto const found = detail::memory_check(one, of.stages()).run(); !found.good())
      return found;
  return detail::rendezvous(plans).run();
}

/// Throws unless `verify` finds nothing, and says where what goes wrong. For plans that will run:
/// 64 ranks and 1024 microbatches take 0.1 to 0.4 s.
inline void require_sound(schedule const& of, std::vector<plan> const& plans) {
  auto const found = verify(of, plans);
  if (found.good()) return;
  constexpr std::string_view flaws[] = {"is good",
                                        "does not compute what the schedule says",
                                        "and its neighbour's disagree on the next message",
                                        "waits for ever",
                                        "uses memory that an earlier step may still be using",
                                        "reads memory that holds something else"};
  fail("pipeline ", of.name, " of ", of.ranks, " ranks and ", of.microbatches,
       " microbatches: the plan of rank ", found.rank, ' ',
       flaws[static_cast<std::size_t>(found.problem)], " in step ", found.step, " of ",
       plans[static_cast<std::size_t>(found.rank)].steps.size(),
       "; nothing has run; use another schedule, and please report it");
}

}  // namespace parallel::pipeline
