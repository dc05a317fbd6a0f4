// flight_recorder: the last calls of a rank with their states, and totals by axis.
//
// The first question about a run that hangs is in which call each rank was. Each rank records its
// last calls with their call sites, and the texts of all recorders together answer the question.
// The decorator `recorded` writes the calls of a host communicator to a recorder;
// nccl::communicator writes its calls itself.
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
#include <parallel/comm/flight/flight_ring.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel {

/// "412 running for 3.2 s: all_reduce(sum) of 5 f32 over tensor at step.cpp:31", with the duration
/// up to `time`, in ns of the system's clock.
[[nodiscard]] inline std::string to_string(flight_call const& call, std::int64_t time) {
  constexpr std::string_view names[] = {"waiting", "running", "done"};
  auto const tenths = std::max<std::int64_t>(0, time - call.state_since) / 100'000'000;
  return concat(call.number, ' ', names[static_cast<std::size_t>(call.state)],
                call.state == call_state::completed ? " since " : " for ", tenths / 10, '.',
                tenths % 10, " s: ", describe(call.call_signature));
}

/// The calls of one rank. Any thread may use it.
class flight_recorder {
 public:
  using state = call_state;
  using call = flight_call;

  /// `payload` and `sent` are bytes. `payload` is the size of a call's whole data (for scatters,
  /// gathers and all_to_all size() times `count`). `sent` is what left this rank for others,
  /// counted by the backend's algorithm at each copy or message. Over n ranks an all_reduce sends
  /// 2(n-1)/n of its payload, reduce_scatter, all_gather and all_to_all (n-1)/n, a send all of it;
  /// a broadcast's n-1 copies are counted by the ranks that send them. `sent` is complete when the
  /// calls are done.
  struct total {
    std::uint64_t calls = 0;
    std::uint64_t payload = 0;
    std::uint64_t sent = 0;
  };

  /// The time at which a call is noted, in ns of the system's clock.
  [[nodiscard]] static std::int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  /// Keeps the last `capacity` calls (at least 1); the totals include all calls.
  explicit flight_recorder(std::size_t capacity = 1024) : flight_recorder(flight_ring(capacity)) {}
  /// Keeps the calls in `ring`.
  explicit flight_recorder(flight_ring ring) : ring_(std::move(ring)) {}

  /// The number of a call and the counter of its sent bytes.
  struct slot {
    std::uint64_t number;
    std::atomic<std::uint64_t>* sent;
  };

  /// Notes a call of `group` that has been enqueued.
  slot record_enqueued(signature const& call_signature, std::uint64_t payload,
                       std::uint64_t group = 0) {
    std::scoped_lock const lock(mutex_);
    auto& sum = totals_[{std::string(call_signature.axis_name()), call_signature.kind}];
    ++sum.calls;
    sum.payload += payload;
    call recorded_call{.number = next_,
                       .state_since = clock_now(),
                       .group = group,
                       .call_signature = call_signature};
    recorded_call.call_signature.sequence =
        is_message(call_signature.kind) ? 0 : collectives_[group]++;
    ring_.write(recorded_call);
    return {next_++, &sum.sent};
  }

  /// Notes that this rank is a member of `group`.
  void join_group(std::uint64_t group) {
    std::scoped_lock const lock(mutex_);
    if (groups_.insert(group).second) ring_.join(group);
  }

  /// Copies the calls to `ring` and keeps all later ones there.
  void move_to(flight_ring ring) {
    std::scoped_lock const lock(mutex_);
    for (auto const group : groups_) ring.join(group);
    for (auto const& recorded_call : remembered()) ring.write(recorded_call);
    ring_ = std::move(ring);
  }

  void set_state(std::uint64_t number, state new_state) {
    std::scoped_lock const lock(mutex_);
    auto const time = clock_now();
    if (new_state == state::running && running_++ == 0) busy_since_ = time;
    if (new_state == state::completed && running_ > 0 && --running_ == 0)
      in_calls_ += std::chrono::nanoseconds(time - busy_since_);
    auto& entry = ring_.entry(number);
    if (entry.number != number) return;  // forgotten
    entry.state_since = time;
    entry.state = new_state;
  }

  /// The time during which at least one call ran, most of which is waiting for other ranks. A
  /// period counts when it ends.
  [[nodiscard]] std::chrono::nanoseconds time_in_calls() const {
    std::scoped_lock const lock(mutex_);
    return in_calls_;
  }

  /// The calls that are kept, oldest first.
  [[nodiscard]] std::vector<call> calls() const {
    std::scoped_lock const lock(mutex_);
    return remembered();
  }

  /// The ring that holds the calls.
  [[nodiscard]] flight_ring const& ring() const { return ring_; }

  /// Totals by axis (empty: the whole world) and operation.
  [[nodiscard]] std::map<std::pair<std::string, operation_kind>, total> totals() const {
    std::scoped_lock const lock(mutex_);
    std::map<std::pair<std::string, operation_kind>, total> out;
    for (auto const& [name, sum] : totals_) out[name] = {sum.calls, sum.payload, sum.sent};
    return out;
  }

  /// A line for each of the last `max_calls` calls, oldest first:
  /// "412 running for 3.2 s: all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
  [[nodiscard]] std::string text(std::size_t max_calls = 20) const {
    auto const entries = calls();
    auto const time = clock_now();
    std::string out;
    for (std::size_t i = entries.size() - std::min(max_calls, entries.size()); i < entries.size();
         ++i)
      out += to_string(entries[i], time) + '\n';
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
      if (auto const& entry = ring_.entry(number); entry.number == number) out.push_back(entry);
    return out;
  }

  mutable std::mutex mutex_;
  std::chrono::nanoseconds in_calls_ = {};
  std::uint64_t running_ = 0;    // number of running calls
  std::int64_t busy_since_ = 0;  // when the first of them began
  flight_ring ring_;
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> groups_;                                     // this rank is a member
  std::map<std::uint64_t, std::uint64_t> collectives_;                 // their number, by group
  std::map<std::pair<std::string, operation_kind>, counters> totals_;  // never erased
};

/// The notes about one call, or about the members of a group, which are noted as separate calls.
class call_notes {
 public:
  /// Notes nothing.
  call_notes() = default;

  /// Notes that `op` of `comm`, whose axis is `axis`, has been enqueued, and attaches the counter
  /// of sent bytes to `op`. `group`: see group_number.
  template <communicator Comm>
  call_notes(std::shared_ptr<flight_recorder> recorder, Comm const& comm, std::string_view axis,
             std::uint64_t group, operation& op)
      : recorder_(std::move(recorder)) {
    auto const note = [&](operation& member) {
      auto call_signature = signature_of(member, 0, axis);
      if (member.peer >= 0 && member.kind != operation_kind::split)
        call_signature.peer = comm.world_rank(member.peer);
      bool const shards = member.kind == operation_kind::reduce_scatter ||
                          member.kind == operation_kind::all_gather ||
                          member.kind == operation_kind::all_to_all;
      auto const ranks = shards ? static_cast<std::uint64_t>(comm.size()) : 1U;
      auto const slot = recorder_->record_enqueued(call_signature, ranks * member.bytes(), group);
      if (count_++ == 0) first_ = slot.number;  // the numbers are consecutive
      member.sent = slot.sent;
    };
    if (op.kind != operation_kind::group) {
      note(op);
      return;
    }
    auto members = *op.members;
    for (auto& member : members) note(member);
    op.members = std::make_shared<std::vector<operation> const>(std::move(members));
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// Notes that the calls have reached a state.
  void set_state(call_state state) const {
    for (std::uint64_t i = 0; i < count_; ++i) recorder_->set_state(first_ + i, state);
  }

 private:
  std::shared_ptr<flight_recorder> recorder_;
  std::uint64_t first_ = 0, count_ = 0;
};

}  // namespace parallel
