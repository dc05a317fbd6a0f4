// step_order: which actions of one rank's list (step_plan.hpp) are surely complete when another one
// begins, whatever the timing: those that precede it on its stream, its dependencies, and all that
// these follow.
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

/// The possible errors of a list of actions, each reported for one action of the list.
enum class step_flaw : std::uint8_t {
  none,
  out_of_order,   // the action precedes one that it needs, occurs twice, or is in the wrong place
  missing,        // the list ends without an action that the step needs
  absent,         // the values or gradients that the action needs are not in its buffer
  stale,          // the action reads memory that holds other data
  race,           // the action uses memory that an earlier action may still use
  unreduced,      // the action takes gradients before all were added or reduced
  reduced_twice,  // the action reduces gradients a second time
  wrong_stream,   // the action is on a stream on which its kind does not belong
  too_many_exchanges,  // the device runs fewer exchanges at once than there are streams of them
  crossed,             // when this rank reaches the exchange, another rank reaches a different one
  deadlock             // the action waits for ever
};

/// The result of checking the lists of one or more ranks: the first flaw, if any.
struct step_verdict {
  step_flaw problem = step_flaw::none;
  std::size_t plan = 0;  ///< the index of the plan that has the problem
  int action = 0;        ///< the number of the action in that plan's list

  [[nodiscard]] bool good() const { return problem == step_flaw::none; }
};

namespace detail {

/// The state of a piece of memory after the actions so far.
struct checked_memory {
  int holds = -1;    // the microbatch, part or unit whose data it holds; -1: none
  int written = -1;  // the action that wrote it last; -1: none
  /// The actions that have read it since: by stream, the last one.
  std::vector<std::pair<int, int>> readers = {};
};

/// The slots of one kind of memory, by number.
struct checked_memories : std::vector<checked_memory> {
  checked_memories(std::size_t count) : std::vector<checked_memory>(count) {}
};

/// Follows a list action by action, and reports the first flaw. Actions are named by their numbers
/// in the list. For every action it keeps a vector clock: by stream, the last action that is
/// complete when this one begins, or this one itself.
class step_order {
 public:
  static constexpr int none = -1;  // no action

  explicit step_order(step_plan const& plan)
      : plan_(plan), lanes_(plan.lanes()), last_by_stream_(lanes_, none) {
    clocks_.reserve(plan.actions.size() * lanes_);
  }

  [[nodiscard]] step_plan const& plan() const { return plan_; }
  [[nodiscard]] bool trains() const { return plan_.mode == parallel::pass::training; }
  /// The action that next() has begun last.
  [[nodiscard]] int current() const { return current_; }
  [[nodiscard]] bool good() const { return problem_ == step_flaw::none; }
  [[nodiscard]] step_verdict verdict() const { return {problem_, 0, current_}; }

  /// Reports a flaw of the current action; the first one counts.
  void report(step_flaw flaw) {
    if (good()) problem_ = flaw;
  }
  void expect(bool condition, step_flaw flaw) {
    if (!condition) report(flaw);
  }

  /// Begins the next action of the list. Returns whether the list has no flaw so far.
  bool next(action const& a) {
    ++current_;
    if (a.lane < 0 || static_cast<std::size_t>(a.lane) >= lanes_) {
      report(step_flaw::wrong_stream);
      return false;
    }
    auto const begin = clocks_.size();
    clocks_.resize(begin + lanes_, none);
    int* const clock = clocks_.data() + begin;
    // Makes `other` complete before this action, and with it all that is complete before `other`.
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const other_clock = clocks_.data() + static_cast<std::size_t>(other) * lanes_;
      for (std::size_t i = 0; i < lanes_; ++i) clock[i] = std::max(clock[i], other_clock[i]);
    };
    auto& last_of_stream = last_by_stream_[static_cast<std::size_t>(a.lane)];
    join(last_of_stream);
    for (int const other : a.dependencies) {
      if (other < 0 || other >= current_) {
        report(step_flaw::out_of_order);
        return false;
      }
      join(other);
    }
    clock[a.lane] = last_of_stream = current_;
    clock_ = clock;
    bool const opens_step = a.kind == action_kind::prepare || a.kind == action_kind::begin;
    expect(is_on_its_stream(a), step_flaw::wrong_stream);
    expect(a.kind == action_kind::begin ? begun_ == none : opens_step || begun_ != none,
           step_flaw::out_of_order);
    expect(opens_step || is_complete(begun_), step_flaw::race);
    if (a.kind == action_kind::begin) begun_ = current_;
    return good();
  }
  /// Ends the list: flaws are then reported for its end.
  void end() { ++current_; }
  /// The action `begin`, or none before it.
  [[nodiscard]] int begun() const { return begun_; }
  /// Whether all earlier actions are complete when the current one begins.
  [[nodiscard]] bool all_complete() const {
    return std::ranges::all_of(last_by_stream_, [&](int last) { return is_complete(last); });
  }
  /// Whether `other` is complete when the current action begins; true for none.
  [[nodiscard]] bool is_complete(int other) const {
    return other == none || clock_[plan_.actions[static_cast<std::size_t>(other)].lane] >= other;
  }
  /// The same, but false for none.
  [[nodiscard]] bool has_run(int other) const { return other != none && is_complete(other); }

  /// Lets the current action read memory, which its last writer must have left.
  void read(checked_memory& memory) {
    expect(is_complete(memory.written), step_flaw::race);
    int const lane = plan_.actions[static_cast<std::size_t>(current_)].lane;
    for (auto& [stream, last] : memory.readers)
      if (stream == lane) {
        last = current_;
        return;
      }
    memory.readers.emplace_back(lane, current_);
  }
  /// Lets the current action write data of `contents` into memory that nothing uses any more.
  void write(checked_memory& memory, int contents) {
    expect(is_complete(memory.written), step_flaw::race);
    for (auto const& [stream, last] : memory.readers) expect(is_complete(last), step_flaw::race);
    memory.readers.clear();
    memory.holds = contents;
    memory.written = current_;
  }
  /// Reads slot `number`, which must hold the data of `contents`.
  void read(checked_memories& memories, int number, int contents) {
    if (number < 0 || number >= std::ssize(memories)) return report(step_flaw::absent);
    auto& memory = memories[static_cast<std::size_t>(number)];
    read(memory);
    expect(memory.holds == contents, step_flaw::stale);
  }
  /// Writes slot `number`, which must not hold the data of `contents` already.
  void write(checked_memories& memories, int number, int contents) {
    if (number < 0 || number >= std::ssize(memories)) return report(step_flaw::absent);
    auto& memory = memories[static_cast<std::size_t>(number)];
    expect(memory.holds != contents, step_flaw::out_of_order);
    write(memory, contents);
  }

 private:
  /// Whether an action is on the stream that its kind requires.
  [[nodiscard]] bool is_on_its_stream(action const& a) const {
    if (a.is_message())
      return a.lane >= lane::messages && plan_.link_at(a.lane).second == pipeline::sends(a.edge);
    bool const before_use = plan_.gathers == gather_time::before_use;
    if (a.kind == action_kind::unshard || (a.kind == action_kind::gather && before_use))
      return a.lane == lane::gathers;
    if (is_collective(a.kind)) return a.lane == lane::reductions;
    bool const is_overlapped_weight_gradient =
        a.is_overlapped && a.pass == pass_kind::backward_weight;
    return a.lane == (is_overlapped_weight_gradient ? lane::weights : lane::compute);
  }

  step_plan const& plan_;
  std::size_t lanes_;
  std::vector<int> last_by_stream_;  // by stream: its last action so far
  std::vector<int> clocks_;          // the vector clocks, by action, then stream
  int const* clock_ = nullptr;       // that of the current action
  step_flaw problem_ = step_flaw::none;
  int begun_ = none;
  int current_ = none;
};

}  // namespace detail
}  // namespace parallel::train
