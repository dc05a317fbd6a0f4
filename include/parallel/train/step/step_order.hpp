// step_order: which actions of one rank's list (step_plan.hpp) are complete when an action begins,
// by the order of its streams and its dependencies alone, whatever the timing.
//
// If two actions use the same memory and at least one of them writes it, one action must be
// complete before the other begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <parallel/train/step/step_plan.hpp>

namespace parallel::train {

/// The possible errors of a list of actions, each found at one action.
enum class step_flaw : std::uint8_t {
  none,
  out_of_order,  // it precedes an action that it needs, occurs twice, or is in the wrong place
  missing,       // the list ends without it
  absent,        // the values or gradients that it needs are not in its buffer
  stale,         // it reads memory that holds something else
  race,          // it uses memory that an earlier action may still use
  unreduced,     // it takes gradients before all were added or reduced
  reduced_twice,
  wrong_stream,
  too_many_exchanges,  // the device runs fewer exchanges at once than there are streams of them
  crossed,             // another rank reaches a different exchange when this one reaches it
  deadlock             // it waits for ever
};

struct step_verdict {
  step_flaw problem = step_flaw::none;
  std::size_t plan = 0;  // which of the plans has the problem
  int action = 0;        // which of its actions

  [[nodiscard]] bool good() const { return problem == step_flaw::none; }
};

namespace detail {

/// Memory that actions write and read, as far as its order matters.
struct checked_memory {
  int holds = -1;    // the microbatch or part whose data it holds
  int written = -1;  // the action that wrote it last
  /// Streams, and the last action of each that read it.
  std::vector<std::pair<int, int>> readers = {};
};

/// Several memories of one kind, by number.
struct checked_memories : std::vector<checked_memory> {
  checked_memories(std::size_t count) : std::vector<checked_memory>(count) {}
};

class step_order {
 public:
  static constexpr int none = -1;

  explicit step_order(step_plan const& plan)
      : plan_(plan), lanes_(plan.lanes()), tips_(lanes_, none) {
    clocks_.reserve(plan.actions.size() * lanes_);
  }

  [[nodiscard]] step_plan const& plan() const { return plan_; }
  [[nodiscard]] bool trains() const { return plan_.mode == parallel::pass::training; }
  /// The number of the action that begins.
  [[nodiscard]] int current() const { return now_; }
  [[nodiscard]] bool good() const { return problem_ == step_flaw::none; }
  [[nodiscard]] step_verdict verdict() const { return {problem_, 0, now_}; }

  /// Reports a flaw; the first one counts.
  void blame(step_flaw flaw) {
    if (good()) problem_ = flaw;
  }
  void expect(bool condition, step_flaw flaw) {
    if (!condition) blame(flaw);
  }

  /// Begins the next action; false when it cannot begin.
  bool next(action const& a) {
    ++now_;
    if (a.lane < 0 || static_cast<std::size_t>(a.lane) >= lanes_)
      return blame(step_flaw::wrong_stream), false;
    auto const begin = clocks_.size();
    clocks_.resize(begin + lanes_, none);
    int* const clock = clocks_.data() + begin;
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const other_clock = clocks_.data() + static_cast<std::size_t>(other) * lanes_;
      for (std::size_t i = 0; i < lanes_; ++i) clock[i] = std::max(clock[i], other_clock[i]);
    };
    auto& tip = tips_[static_cast<std::size_t>(a.lane)];
    join(tip);
    for (int const other : a.dependencies) {
      if (other < 0 || other >= now_) return blame(step_flaw::out_of_order), false;
      join(other);
    }
    clock[a.lane] = tip = now_;
    clock_ = clock;
    bool const opens_step = a.kind == action_kind::prepare || a.kind == action_kind::begin;
    expect(in_lane(a), step_flaw::wrong_stream);
    expect(a.kind == action_kind::begin ? begun_ == none : opens_step || begun_ != none,
           step_flaw::out_of_order);
    expect(opens_step || is_complete(begun_), step_flaw::race);
    if (a.kind == action_kind::begin) begun_ = now_;
    return good();
  }
  /// Ends the list, after the last action.
  void end() { ++now_; }
  /// The number of the action `begin`.
  [[nodiscard]] int begun() const { return begun_; }
  /// Whether all actions so far are complete.
  [[nodiscard]] bool all_complete() const {
    return std::ranges::all_of(tips_, [&](int tip) { return is_complete(tip); });
  }
  [[nodiscard]] bool is_complete(int other) const {
    return other == none || clock_[plan_.actions[static_cast<std::size_t>(other)].lane] >= other;
  }
  [[nodiscard]] bool has_run(int other) const { return other != none && is_complete(other); }

  void read(checked_memory& memory) {
    expect(is_complete(memory.written), step_flaw::race);
    int const lane = plan_.actions[static_cast<std::size_t>(now_)].lane;
    for (auto& [stream, last] : memory.readers)
      if (stream == lane) {
        last = now_;
        return;
      }
    memory.readers.emplace_back(lane, now_);
  }
  void write(checked_memory& memory, int contents) {
    expect(is_complete(memory.written), step_flaw::race);
    for (auto const& [stream, last] : memory.readers) expect(is_complete(last), step_flaw::race);
    memory.readers.clear();
    memory.holds = contents;
    memory.written = now_;
  }
  void read(checked_memories& memories, int number, int contents) {
    if (number < 0 || number >= std::ssize(memories)) return blame(step_flaw::absent);
    auto& memory = memories[static_cast<std::size_t>(number)];
    read(memory);
    expect(memory.holds == contents, step_flaw::stale);
  }
  /// Writes data of a microbatch, which the memory must not hold already.
  void write(checked_memories& memories, int number, int contents) {
    if (number < 0 || number >= std::ssize(memories)) return blame(step_flaw::absent);
    auto& memory = memories[static_cast<std::size_t>(number)];
    expect(memory.holds != contents, step_flaw::out_of_order);
    write(memory, contents);
  }

 private:
  /// Whether an action is on the stream where it belongs.
  [[nodiscard]] bool in_lane(action const& a) const {
    if (a.is_message())
      return a.lane >= lane::messages && plan_.link_at(a.lane).second == pipeline::sends(a.edge);
    bool const before_use = plan_.gathers == gather_time::before_use;
    if (a.kind == action_kind::unshard || (a.kind == action_kind::gather && before_use))
      return a.lane == lane::gathers;
    if (is_collective(a.kind)) return a.lane == lane::reductions;
    bool const runs_aside = a.is_overlapped && a.pass == pass_kind::backward_weight;
    return a.lane == (runs_aside ? lane::weights : lane::compute);
  }

  step_plan const& plan_;
  std::size_t lanes_;
  std::vector<int> tips_;    // by stream: its last action so far
  std::vector<int> clocks_;  // by action and stream: the last action there that is complete
  int const* clock_ = nullptr;
  step_flaw problem_ = step_flaw::none;
  int begun_ = none;
  int now_ = none;
};

}  // namespace detail
}  // namespace parallel::train
