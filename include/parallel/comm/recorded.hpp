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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel {

/// What one rank said. Any thread may use it.
class flight_recorder {
 public:
  enum class state : std::uint8_t { waiting, running, done };

  struct call {
    std::uint64_t number = 0;  // of all calls of this rank
    signature what;
    state now = state::waiting;
    std::chrono::steady_clock::time_point since;  // when it came into this state
  };

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
  explicit flight_recorder(std::size_t capacity = 1024) : capacity_(capacity) {
    require(capacity >= 1, "flight_recorder: a capacity of 0 remembers nothing");
  }

  /// A call's number, and where its sent bytes are counted.
  struct slot {
    std::uint64_t number;
    std::atomic<std::uint64_t>* sent;
  };

  /// Notes a call that has been enqueued.
  slot enqueued(signature const& what, std::uint64_t payload) {
    std::scoped_lock const lock(mutex_);
    auto& sum = totals_[{std::string(what.axis_name()), what.kind}];
    ++sum.calls;
    sum.payload += payload;
    if (calls_.size() < capacity_) calls_.emplace_back();
    calls_[next_ % capacity_] = {next_, what, state::waiting, std::chrono::steady_clock::now()};
    return {next_++, &sum.sent};
  }

  void now(std::uint64_t number, state what) {
    std::scoped_lock const lock(mutex_);
    auto& entry = calls_[number % capacity_];
    if (entry.number != number) return;  // forgotten
    entry.now = what;
    entry.since = std::chrono::steady_clock::now();
  }

  /// The calls remembered, oldest first.
  [[nodiscard]] std::vector<call> calls() const {
    std::scoped_lock const lock(mutex_);
    auto out = calls_;
    auto const oldest = out.size() < capacity_ ? 0 : next_ % capacity_;
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(oldest), out.end());
    return out;
  }

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
    constexpr std::string_view names[] = {"waiting", "running", "done"};
    auto const entries = calls();
    auto const time = std::chrono::steady_clock::now();
    std::string out;
    for (std::size_t i = entries.size() - std::min(most, entries.size()); i < entries.size(); ++i) {
      auto const& one = entries[i];
      auto const tenths =
          std::chrono::duration_cast<std::chrono::milliseconds>(time - one.since).count() / 100;
      out += concat(one.number, ' ', names[static_cast<std::size_t>(one.now)],
                    one.now == state::done ? " since " : " for ", tenths / 10, '.', tenths % 10,
                    " s: ", describe(one.what), '\n');
    }
    return out;
  }

 private:
  struct counters {
    std::uint64_t calls = 0;
    std::uint64_t payload = 0;
    std::atomic<std::uint64_t> sent = 0;
  };

  mutable std::mutex mutex_;
  std::size_t capacity_;
  std::uint64_t next_ = 0;
  std::vector<call> calls_;  // call n stands at n modulo the capacity
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
      : base(std::move(inner)), recorder_(std::move(recorder)) {}

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
      auto const [number, sent] = recorder_->enqueued(what, ranks * part.bytes());
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
        signature_of({.kind = operation_kind::split, .peer = color}, 0, this->name()), 0);
    recorder_->now(call.number, flight_recorder::state::running);
    recorded part(inner_.split(color, std::move(name)), recorder_);
    recorder_->now(call.number, flight_recorder::state::done);
    return part;
  }

 private:
  using base::inner_;
  std::shared_ptr<flight_recorder> recorder_;
};

}  // namespace parallel
