// recorded: a flight recorder: the last calls of a rank, what became of them, and totals by axis.
//
// When a run stops, the first question is which call every rank was in. Each rank keeps its last
// calls with their call sites; the text of the recorders, side by side, answers it. A decorator:
// parts (split) write to the recorder of the whole. Cost: about a microsecond a call
// (bench/calls.cpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/flight_ring.hpp>
#include <parallel/comm/forwarding.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel {

/// "412 running for 3.2 s: all_reduce(sum) of 5 f32 over tensor at step.cpp:31", as seen at `time`,
/// in ns of the system's clock.
[[nodiscard]] inline std::string text_of(flight_call const& one, std::int64_t time) {
  constexpr std::string_view names[] = {"waiting", "running", "done"};
  auto const tenths = std::max<std::int64_t>(0, time - one.since) / 100'000'000;
  return concat(one.number, ' ', names[static_cast<std::size_t>(one.now)],
                one.now == call_state::done ? " since " : " for ", tenths / 10, '.', tenths % 10,
                " s: ", describe(one.what));
}

/// What one rank said. Any thread may use it.
class flight_recorder {
 public:
  using state = call_state;
  using call = flight_call;

  /// All bytes: `payload` is the whole that a call is about (of scatters, gathers and all_to_all
  /// size() times `count`); `sent` is what left this rank for others, counted by the backend's own
  /// algorithm at each copy or message. Over n ranks an all_reduce sends 2(n-1)/n of its payload,
  /// reduce_scatter, all_gather and all_to_all (n-1)/n, a send all; a broadcast's n-1 copies are
  /// sent by whoever had them. `sent` is complete when the calls are done.
  struct total {
    std::uint64_t calls = 0;
    std::uint64_t payload = 0;
    std::uint64_t sent = 0;
  };

  /// Remembers the last `capacity` calls (at least 1); totals are of all.
  explicit flight_recorder(std::size_t capacity = 1024) : flight_recorder(flight_ring(capacity)) {}
  /// Remembers as many calls as `ring` has room for, there.
  explicit flight_recorder(flight_ring ring) : ring_(std::move(ring)) {}

  /// A call's number, and where its sent bytes are counted.
  struct slot {
    std::uint64_t number;
    std::atomic<std::uint64_t>* sent;
  };

  /// Notes a call of `group` that has been enqueued.
  slot enqueued(signature const& what, std::uint64_t payload, std::uint64_t group = 0) {
    std::scoped_lock const lock(mutex_);
    auto& sum = totals_[{std::string(what.axis_name()), what.kind}];
    ++sum.calls;
    sum.payload += payload;
    call one{.number = next_, .since = clock_now(), .group = group, .what = what};
    one.what.sequence = is_message(what.kind) ? 0 : collectives_[group]++;
    ring_.write(one);
    return {next_++, &sum.sent};
  }

  /// Notes that this rank is one of `group`.
  void joined(std::uint64_t group) {
    std::scoped_lock const lock(mutex_);
    if (groups_.insert(group).second) ring_.join(group);
  }

  /// Remembers there from now on, also what is remembered already.
  void move_to(flight_ring ring) {
    std::scoped_lock const lock(mutex_);
    for (auto const group : groups_) ring.join(group);
    for (auto const& one : remembered()) ring.write(one);
    ring_ = std::move(ring);
  }

  void now(std::uint64_t number, state what) {
    std::scoped_lock const lock(mutex_);
    auto& entry = ring_.at(number);
    if (entry.number != number) return;  // forgotten
    entry.since = clock_now();
    entry.now = what;
  }

  /// The calls remembered, oldest first.
  [[nodiscard]] std::vector<call> calls() const {
    std::scoped_lock const lock(mutex_);
    return remembered();
  }

  /// Where they are remembered.
  [[nodiscard]] flight_ring const& ring() const { return ring_; }

  /// By axis (empty: the whole) and operation.
  [[nodiscard]] std::map<std::pair<std::string, operation_kind>, total> totals() const {
    std::scoped_lock const lock(mutex_);
    std::map<std::pair<std::string, operation_kind>, total> out;
    for (auto const& [name, sum] : totals_) out[name] = {sum.calls, sum.payload, sum.sent};
    return out;
  }

  /// A line for each of the last `most` calls, oldest first:
  /// "412 running for 3.2 s: all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
  [[nodiscard]] std::string text(std::size_t most = 20) const {
    auto const entries = calls();
    auto const time = clock_now();
    std::string out;
    for (std::size_t i = entries.size() - std::min(most, entries.size()); i < entries.size(); ++i)
      out += text_of(entries[i], time) + '\n';
    return out;
  }

 private:
  struct counters {
    std::uint64_t calls = 0;
    std::uint64_t payload = 0;
    std::atomic<std::uint64_t> sent = 0;
  };

  [[nodiscard]] std::vector<call> remembered() const {
    std::vector<call> out;
    for (auto number = next_ - std::min<std::uint64_t>(next_, ring_.capacity()); number < next_;
         ++number)
      if (auto const& one = ring_.at(number); one.number == number) out.push_back(one);
    return out;
  }

  [[nodiscard]] static std::int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  mutable std::mutex mutex_;
  flight_ring ring_;
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> groups_;                                     // that this rank is one of
  std::map<std::uint64_t, std::uint64_t> collectives_;                 // of each group so far
  std::map<std::pair<std::string, operation_kind>, counters> totals_;  // never erased
};

template <has_submit Inner>
requires task_stream<typename Inner::stream_type>
class recorded : public forwarding<recorded<Inner>, Inner, typename Inner::stream_type> {
  using base = forwarding<recorded, Inner, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;
  using base::size;
  using base::world_rank;

  /// Owns `inner`.
  recorded(Inner inner, std::shared_ptr<flight_recorder> recorder)
      : base(std::move(inner)),
        recorder_(std::move(recorder)),
        group_(group_number(this->name(), size(), [this](int rank) { return world_rank(rank); })) {
    recorder_->joined(group_);
  }

  [[nodiscard]] flight_recorder const& recorder() const { return *recorder_; }

  /// Enqueues `op` between two notes. A call that fails stays "running". The parts of a group are
  /// calls of their own.
  request_type submit(stream_type& s, operation const& op) {
    std::vector<operation> parts;
    std::uint64_t first = 0;  // of the calls' numbers, which follow each other
    for_each_part(op, [&](operation const& part) {
      auto what = signature_of(part, 0, this->name());
      if (part.peer >= 0) what.peer = world_rank(part.peer);
      bool const shards = part.kind == operation_kind::reduce_scatter ||
                          part.kind == operation_kind::all_gather ||
                          part.kind == operation_kind::all_to_all;
      auto const ranks = shards ? static_cast<std::uint64_t>(size()) : 1U;
      auto const [number, sent] = recorder_->enqueued(what, ranks * part.bytes(), group_);
      if (parts.empty()) first = number;
      parts.push_back(part);
      parts.back().sent = sent;
    });
    auto const note = [first, count = parts.size(), r = recorder_](flight_recorder::state now) {
      for (std::uint64_t number = first; number < first + count; ++number) r->now(number, now);
    };
    operation counted = parts.front();
    if (op.kind == operation_kind::group) {
      counted = op;
      counted.parts = std::make_shared<std::vector<operation> const>(std::move(parts));
    }
    s.enqueue([note] { note(flight_recorder::state::running); });
    auto inner = inner_.submit(s, counted);
    auto from = inner.from();
    return detail::enqueue(s, std::move(from), op, [note, inner = std::move(inner)] {
      note(flight_recorder::state::done);
    });
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* on = nullptr) {
    return inner_.open_exchange(on);
  }

  /// See `has_split`. A call like any other, that runs at once.
  [[nodiscard]] recorded split(int color, std::string name = {}) requires has_split<Inner> {
    auto const call = recorder_->enqueued(
        signature_of({.kind = operation_kind::split, .peer = color}, 0, this->name()), 0, group_);
    recorder_->now(call.number, flight_recorder::state::running);
    recorded part(inner_.split(color, std::move(name)), recorder_);
    recorder_->now(call.number, flight_recorder::state::done);
    return part;
  }

 private:
  using base::inner_;
  std::shared_ptr<flight_recorder> recorder_;
  std::uint64_t group_;
};

}  // namespace parallel
