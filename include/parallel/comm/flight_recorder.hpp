// flight_recorder: the last calls of a rank, what became of them, and totals by axis.
//
// When a run stops, the first question is which call every rank was in. Each rank keeps its last
// calls with their call sites; the text of the recorders, side by side, answers it. Who makes calls
// notes them here: `recorded` before a communicator of the host, nccl::communicator by itself.
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

#include <parallel/comm/concepts.hpp>
#include <parallel/comm/flight_ring.hpp>
#include <parallel/comm/operation.hpp>
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

  /// ns of the system's clock, by which calls are noted.
  [[nodiscard]] static std::int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

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
    auto const time = clock_now();
    if (what == state::running && running_++ == 0) busy_since_ = time;
    if (what == state::done && running_ > 0 && --running_ == 0)
      in_calls_ += std::chrono::nanoseconds(time - busy_since_);
    auto& entry = ring_.at(number);
    if (entry.number != number) return;  // forgotten
    entry.since = time;
    entry.now = what;
  }

  /// How long calls ran, one or several at a time: mostly for waiting for other ranks. What is
  /// under way does not count yet.
  [[nodiscard]] std::chrono::nanoseconds time_in_calls() const {
    std::scoped_lock const lock(mutex_);
    return in_calls_;
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

  mutable std::mutex mutex_;
  std::chrono::nanoseconds in_calls_ = {};
  std::uint64_t running_ = 0;    // calls
  std::int64_t busy_since_ = 0;  // when the first of them began
  flight_ring ring_;
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> groups_;                                     // that this rank is one of
  std::map<std::uint64_t, std::uint64_t> collectives_;                 // of each group so far
  std::map<std::pair<std::string, operation_kind>, counters> totals_;  // never erased
};

/// What a recorder is told of one call, or of the parts of a group, which are calls of their own.
class noted_calls {
 public:
  /// Tells nobody.
  noted_calls() = default;

  /// Notes that `op` of `comm`, which is called `axis` there, has been enqueued, and makes `op`
  /// count what it sends. `group`: see group_number.
  template <communicator Comm>
  noted_calls(std::shared_ptr<flight_recorder> recorder, Comm const& comm, std::string_view axis,
              std::uint64_t group, operation& op)
      : recorder_(std::move(recorder)) {
    auto const note = [&](operation& part) {
      auto what = signature_of(part, 0, axis);
      if (part.peer >= 0 && part.kind != operation_kind::split)
        what.peer = comm.world_rank(part.peer);
      bool const shards = part.kind == operation_kind::reduce_scatter ||
                          part.kind == operation_kind::all_gather ||
                          part.kind == operation_kind::all_to_all;
      auto const ranks = shards ? static_cast<std::uint64_t>(comm.size()) : 1U;
      auto const slot = recorder_->enqueued(what, ranks * part.bytes(), group);
      if (count_++ == 0) first_ = slot.number;  // the numbers follow each other
      part.sent = slot.sent;
    };
    if (op.kind != operation_kind::group) {
      note(op);
      return;
    }
    auto parts = *op.parts;
    for (auto& part : parts) note(part);
    op.parts = std::make_shared<std::vector<operation> const>(std::move(parts));
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// They have come so far.
  void now(call_state what) const {
    for (std::uint64_t at = 0; at < count_; ++at) recorder_->now(first_ + at, what);
  }

 private:
  std::shared_ptr<flight_recorder> recorder_;
  std::uint64_t first_ = 0, count_ = 0;
};

}  // namespace parallel
