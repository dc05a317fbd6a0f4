// gloo::detail::batch: sends and receives that are waited for together.
//
// A message's slot says how long it is, so one of another length is never taken for it: gloo would
// end the process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/gloo/world.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo::detail {

/// The ranks of a communicator: the world's, or a part's.
struct group {
  std::uint64_t id = 0;    // other for every group of a world
  std::vector<int> names;  // of its ranks, in the world
  int rank = 0;            // of this process
};

/// Mixes numbers to one that tells them apart: the slot of what a communicator does next.
template <class... Numbers>
[[nodiscard]] std::uint64_t mix(Numbers... numbers) {
  std::uint64_t out = 0;
  for (auto const number : {static_cast<std::uint64_t>(numbers)...}) {  // splitmix64's steps
    out += 0x9e3779b97f4a7c15ULL + number;
    out = (out ^ (out >> 30)) * 0xbf58476d1ce4e5b9ULL;
    out = (out ^ (out >> 27)) * 0x94d049bb133111ebULL;
    out ^= out >> 31;
  }
  return std::max(out, world::first_free_slot);
}

class batch {
 public:
  /// Messages of the operation that `what` describes, which has the number `slot`.
  batch(world& over, group const& ranks, std::uint64_t slot, signature const& what)
      : world_(&over), group_(&ranks), slot_(slot), what_(what) {}

  void send(void const* from, std::size_t bytes, int peer) {
    // gloo has one kind of buffer for both ways
    post(const_cast<void*>(from), bytes, peer, direction::sent);
  }
  void recv(void* to, std::size_t bytes, int peer) { post(to, bytes, peer, direction::received); }

  /// Blocks until all are done. Throws at the deadline, naming the ranks that are missing, when a
  /// rank aborts, and when one that is missing makes no more calls.
  void wait() {
    if (wait_for_missing().empty()) return;
    stop(overdue({}));
  }

  /// Blocks until all are done, or to the deadline: then it returns the missing ranks, as the world
  /// calls them. Throws when a rank aborts, or is gone.
  std::vector<int> wait_for_missing() {
    patience limit(world_->options().deadline.get());
    for (; first_ < transfers_.size(); ++first_)
      while (!arrived(transfers_[first_], limit.next())) {
        stop_if_aborted();
        stop_if_left(transfers_[first_].peer);
        if (limit.over()) return missing();
      }
    transfers_.clear();
    first_ = 0;
    return {};
  }

  /// The sentence for the deadline; `others` says what is known of the ranks that came.
  [[nodiscard]] std::string overdue(std::string const& others) const {
    return concat(describe(what_), " (call ", what_.sequence, "): rank ", me(), " waited ",
                  world_->options().deadline.seconds(), " s for ", name_ranks(missing_), others);
  }

  /// Tells all ranks, and throws.
  template <class Error = timed_out>
  [[noreturn]] void stop(std::string const& message) {
    world_->abort(message);
    throw Error(message);
  }

 private:
  struct transfer {
    std::unique_ptr<world::buffer> message;  // none: there is nobody at the other end any more
    direction what;
    int peer;  // as the world calls it
  };

  // How long the reason why a rank has gone may come after that.
  static constexpr auto in_flight = std::chrono::seconds(1);

  [[nodiscard]] int me() const { return group_->names[static_cast<std::size_t>(group_->rank)]; }

  void post(void* memory, std::size_t bytes, int peer, direction what) {
    int const name = group_->names[static_cast<std::size_t>(peer)];
    if (world_->has_given_up(name)) return transfers_.push_back({nullptr, what, name});
    auto message = world_->make_buffer(memory, bytes);
    auto const slot = mix(slot_, bytes);
    try {
      if (what == direction::sent)
        message->send(name, slot, 0, bytes);
      else
        message->recv(name, slot, 0, bytes);
    } catch (std::exception const&) {
      world_->note_left(name);
      message = nullptr;
    }
    transfers_.push_back({std::move(message), what, name});
  }

  [[nodiscard]] bool arrived(transfer& one, steady_time until) {
    if (one.message) return world_->arrived(*one.message, one.what, one.peer, until);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return false;
  }

  // Whose messages are not through, looking at each a last time.
  std::vector<int> missing() {
    missing_.clear();
    for (std::size_t i = first_; i < transfers_.size(); ++i) {
      transfer& one = transfers_[i];
      if (std::binary_search(missing_.begin(), missing_.end(), one.peer)) continue;
      if (arrived(one, steady_time::clock::now() + std::chrono::milliseconds(2))) continue;
      missing_.insert(std::lower_bound(missing_.begin(), missing_.end(), one.peer), one.peer);
    }
    return missing_;
  }

  // Says what this rank waited for: side by side, the ranks' errors tell who waited for whom.
  void stop_if_aborted() {
    auto const reason = world_->stopped();
    if (!reason) return;
    throw aborted(concat(*reason, "; rank ", me(), " waited for rank ", transfers_[first_].peer,
                         " in ", describe(what_)));
  }

  void stop_if_left(int peer) {
    auto const gone = world_->left_since(peer);
    if (!gone || steady_time::clock::now() - gone->since < in_flight) return;
    stop<aborted>(
        gone->said
            ? concat("rank ", peer,
                     " has returned from its program or ended its communicator, but rank ", me(),
                     " waits for it in ", describe(what_), " (call ", what_.sequence,
                     "); all ranks must make the same calls in the same order")
            : concat("rank ", peer, " is gone: its connection to rank ", me(),
                     " was closed without a word, as when a process is killed or its machine "
                     "fails; rank ",
                     me(), " waited for it in ", describe(what_), " (call ", what_.sequence, ")"));
  }

  world* world_;
  group const* group_;
  std::uint64_t slot_;
  signature what_;
  std::vector<transfer> transfers_;
  std::size_t first_ = 0;  // of them that is not known to be through
  std::vector<int> missing_;
};

}  // namespace parallel::gloo::detail
