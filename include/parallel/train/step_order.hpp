// step_order: what of one rank's list (step_plan.hpp) is over when an action begins, by its streams
// and waits alone, whatever the timing.
//
// Of two actions that use the same memory, one of them writing, one must be over before the other
// begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <parallel/train/step_plan.hpp>

namespace parallel::train {

/// What can be wrong with a list.
enum class step_flaw : std::uint8_t {
  none,
  out_of_order,  // it does not come after what it needs, comes twice, or not where it belongs
  missing,       // the list ends without it
  absent,        // the values or gradients that it needs are not where it looks for them
  stale,         // it reads memory that holds something else
  race,          // it uses memory that an earlier action may still be using
  unreduced,     // gradients are taken before all were added, or before they were reduced
  reduced_twice,
  wrong_stream,
  too_many_exchanges,  // the device runs fewer at once than there are streams of them
  crossed,             // another rank comes to something else where this one comes to it
  deadlock             // it waits for ever
};

struct step_verdict {
  step_flaw problem = step_flaw::none;
  std::size_t plan = 0;  // which of the plans has the problem
  int action = 0;        // which of its actions

  [[nodiscard]] bool good() const { return problem == step_flaw::none; }
};

namespace detail {

/// Memory that is written and read, as far as its order matters.
struct checked_memory {
  int holds = -1;                                 // a microbatch or a part
  int written = -1;                               // by this action
  std::vector<std::pair<int, int>> readers = {};  // streams, and their last actions
};

/// Several of a kind, by number.
struct checked_memories : std::vector<checked_memory> {
  checked_memories(std::size_t count) : std::vector<checked_memory>(count) {}
};

class step_order {
 public:
  static constexpr int none = -1;

  explicit step_order(step_plan const& of) : of_(of), lanes_(of.lanes()), tips_(lanes_, none) {
    clocks_.reserve(of.actions.size() * lanes_);
  }

  [[nodiscard]] step_plan const& plan() const { return of_; }
  [[nodiscard]] bool trains() const { return of_.mode == parallel::pass::training; }
  /// The action that begins.
  [[nodiscard]] int now() const { return now_; }
  [[nodiscard]] bool good() const { return problem_ == step_flaw::none; }
  [[nodiscard]] step_verdict verdict() const { return {problem_, 0, now_}; }

  /// The first trouble counts.
  void blame(step_flaw what) {
    if (good()) problem_ = what;
  }
  void expect(bool condition, step_flaw what) {
    if (!condition) blame(what);
  }

  /// The next action begins; false when it cannot.
  bool next(action const& a) {
    ++now_;
    if (a.on < 0 || static_cast<std::size_t>(a.on) >= lanes_)
      return blame(step_flaw::wrong_stream), false;
    auto const begin = clocks_.size();
    clocks_.resize(begin + lanes_, none);
    int* const clock = clocks_.data() + begin;
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const more = clocks_.data() + static_cast<std::size_t>(other) * lanes_;
      for (std::size_t i = 0; i < lanes_; ++i) clock[i] = std::max(clock[i], more[i]);
    };
    auto& tip = tips_[static_cast<std::size_t>(a.on)];
    join(tip);
    for (int const other : a.after) {
      if (other < 0 || other >= now_) return blame(step_flaw::out_of_order), false;
      join(other);
    }
    clock[a.on] = tip = now_;
    clock_ = clock;
    bool const before = a.kind == action_kind::prepare || a.kind == action_kind::begin;
    expect(in_lane(a), step_flaw::wrong_stream);
    expect(a.kind == action_kind::begin ? begun_ == none : before || begun_ != none,
           step_flaw::out_of_order);
    expect(before || over(begun_), step_flaw::race);
    if (a.kind == action_kind::begin) begun_ = now_;
    return good();
  }
  /// After the last.
  void end() { ++now_; }
  /// The action `begin`.
  [[nodiscard]] int begun() const { return begun_; }
  /// Whether everything before is over.
  [[nodiscard]] bool all_over() const {
    return std::ranges::all_of(tips_, [&](int tip) { return over(tip); });
  }
  [[nodiscard]] bool over(int other) const {
    return other == none || clock_[of_.actions[static_cast<std::size_t>(other)].on] >= other;
  }
  [[nodiscard]] bool done(int other) const { return other != none && over(other); }

  void read(checked_memory& of) {
    expect(over(of.written), step_flaw::race);
    int const on = of_.actions[static_cast<std::size_t>(now_)].on;
    for (auto& [stream, last] : of.readers)
      if (stream == on) {
        last = now_;
        return;
      }
    of.readers.emplace_back(on, now_);
  }
  void write(checked_memory& of, int what) {
    expect(over(of.written), step_flaw::race);
    for (auto const& [stream, last] : of.readers) expect(over(last), step_flaw::race);
    of.readers.clear();
    of.holds = what;
    of.written = now_;
  }
  void read(checked_memories& all, int number, int what) {
    if (number < 0 || number >= std::ssize(all)) return blame(step_flaw::absent);
    auto& one = all[static_cast<std::size_t>(number)];
    read(one);
    expect(one.holds == what, step_flaw::stale);
  }
  /// Of a microbatch, whose it becomes once.
  void write(checked_memories& all, int number, int what) {
    if (number < 0 || number >= std::ssize(all)) return blame(step_flaw::absent);
    auto& one = all[static_cast<std::size_t>(number)];
    expect(one.holds != what, step_flaw::out_of_order);
    write(one, what);
  }

 private:
  /// The stream on which an action belongs.
  [[nodiscard]] bool in_lane(action const& a) const {
    if (a.is_message())
      return a.on >= lane::messages && of_.links[static_cast<std::size_t>(a.on - lane::messages)] ==
                                           std::pair(a.peer, pipeline::sends(a.edge));
    bool const before_use = of_.gathers == gather_time::before_use;
    if (a.kind == action_kind::unshard || (a.kind == action_kind::gather && before_use))
      return a.on == lane::gathers;
    if (is_collective(a.kind)) return a.on == lane::reductions;
    bool const aside = a.beside && a.does == pass_kind::backward_weight;
    return a.on == (aside ? lane::weights : lane::compute);
  }

  step_plan const& of_;
  std::size_t lanes_;
  std::vector<int> tips_;    // the last action so far on each stream
  std::vector<int> clocks_;  // by action and stream: the last action there that is over
  int const* clock_ = nullptr;
  step_flaw problem_ = step_flaw::none;
  int begun_ = none;
  int now_ = none;
};

}  // namespace detail
}  // namespace parallel::train
