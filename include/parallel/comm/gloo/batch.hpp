// gloo::detail::batch: sends and receives that are waited for together.
//
// The slot of a message depends on its length, so that a message of another length never matches:
// gloo would end the process.
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

/// The ranks of a communicator: those of the world or of a sub-communicator.
struct group {
  std::uint64_t id = 0;          // unique among the groups of a world
  std::vector<int> world_ranks;  // of its ranks
  int rank = 0;                  // of this process
};

/// Mixes numbers to one that identifies them: the slot of a communicator's next operation.
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
  /// Messages of the operation that `call_signature` describes, with the number `slot`.
  batch(world& shared_world, group const& ranks, std::uint64_t slot,
        signature const& call_signature)
      : world_(&shared_world), group_(&ranks), slot_(slot), call_signature_(call_signature) {}

  void send(void const* from, std::size_t bytes, int peer) {
    // gloo has one type of buffer for both directions.
    post(const_cast<void*>(from), bytes, peer, direction::sent);
  }
  void recv(void* to, std::size_t bytes, int peer) { post(to, bytes, peer, direction::received); }

  /// Blocks until all are done. Throws at the deadline, naming the ranks that are missing, when a
  /// rank aborts, and when one that is missing makes no more calls.
  void wait() {
    if (wait_for_missing().empty()) return;
    stop(overdue({}));
  }

  /// Blocks until all are done, or until the deadline: then it returns the world ranks that are
  /// missing. Throws when a rank aborts or has left.
  std::vector<int> wait_for_missing() {
    patience limit(world_->options().deadline.get());
    for (; first_ < transfers_.size(); ++first_)
      while (!is_complete(transfers_[first_], limit.next_check())) {
        stop_if_aborted();
        stop_if_left(transfers_[first_].peer);
        if (limit.is_over()) return missing();
      }
    transfers_.clear();
    first_ = 0;
    return {};
  }

  /// The message for the deadline; `present_ranks` describes the ranks that have arrived.
  [[nodiscard]] std::string overdue(std::string const& present_ranks) const {
    return concat(describe(call_signature_), " (call ", call_signature_.sequence, "): rank ",
                  own_rank(), " waited ", world_->options().deadline.seconds(), " s for ",
                  name_ranks(missing_), present_ranks);
  }

  /// Aborts all ranks, and throws.
  template <class Error = timed_out>
  [[noreturn]] void stop(std::string const& message) {
    world_->abort(message);
    throw Error(message);
  }

 private:
  struct transfer {
    std::unique_ptr<world::buffer> message;  // null: the other rank has left
    direction side;
    int peer;  // world rank
  };

  // The longest time between the departure of a rank and the arrival of the reason.
  static constexpr auto max_notice_delay = std::chrono::seconds(1);

  [[nodiscard]] int own_rank() const {
    return group_->world_ranks[static_cast<std::size_t>(group_->rank)];
  }

  void post(void* memory, std::size_t bytes, int peer, direction side) {
    int const world_rank = group_->world_ranks[static_cast<std::size_t>(peer)];
    if (world_->has_given_up(world_rank)) return transfers_.push_back({nullptr, side, world_rank});
    auto message = world_->make_buffer(memory, bytes);
    auto const slot = mix(slot_, bytes);
    try {
      if (side == direction::sent)
        message->send(world_rank, slot, 0, bytes);
      else
        message->recv(world_rank, slot, 0, bytes);
    } catch (std::exception const&) {
      world_->record_left(world_rank);
      message = nullptr;
    }
    transfers_.push_back({std::move(message), side, world_rank});
  }

  [[nodiscard]] bool is_complete(transfer& pending, steady_time deadline) {
    if (pending.message)
      return world_->is_complete(*pending.message, pending.side, pending.peer, deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return false;
  }

  // The ranks whose messages are not complete; checks each message a last time.
  std::vector<int> missing() {
    missing_.clear();
    for (std::size_t i = first_; i < transfers_.size(); ++i) {
      transfer& pending = transfers_[i];
      if (std::binary_search(missing_.begin(), missing_.end(), pending.peer)) continue;
      if (is_complete(pending, steady_time::clock::now() + std::chrono::milliseconds(2))) continue;
      missing_.insert(std::lower_bound(missing_.begin(), missing_.end(), pending.peer),
                      pending.peer);
    }
    return missing_;
  }

  // The message says what this rank waited for, so that the errors of all ranks show who waited for
  // whom.
  void stop_if_aborted() {
    auto const reason = world_->stop_reason();
    if (!reason) return;
    throw aborted(concat(*reason, "; rank ", own_rank(), " waited for rank ",
                         transfers_[first_].peer, " in ", describe(call_signature_)));
  }

  void stop_if_left(int peer) {
    auto const departure = world_->left_since(peer);
    if (!departure || steady_time::clock::now() - departure->time < max_notice_delay) return;
    stop<aborted>(
        departure->is_announced
            ? concat("rank ", peer,
                     " has returned from its program or ended its communicator, but rank ",
                     own_rank(), " waits for it in ", describe(call_signature_), " (call ",
                     call_signature_.sequence,
                     "); all ranks must make the same calls in the same order")
            : concat("rank ", peer, " is gone: its connection to rank ", own_rank(),
                     " was closed without a word, as when a process is killed or its machine "
                     "fails; rank ",
                     own_rank(), " waited for it in ", describe(call_signature_), " (call ",
                     call_signature_.sequence, ")"));
  }

  world* world_;
  group const* group_;
  std::uint64_t slot_;
  signature call_signature_;
  std::vector<transfer> transfers_;
  std::size_t first_ = 0;  // the first transfer that may be incomplete
  std::vector<int> missing_;
};

}  // namespace parallel::gloo::detail
