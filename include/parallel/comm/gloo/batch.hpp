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
#include <parallel/comm/message_communicator.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo::detail {

class batch {
 public:
  batch(world& shared_world, message_operation const& operation)
      : world_(&shared_world), operation_(operation) {}

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
    return overdue_message(operation_.call, own_rank(), world_->options().deadline.seconds(),
                           missing_) +
           present_ranks;
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

  [[nodiscard]] int own_rank() const { return operation_.world_rank(operation_.rank); }

  void post(void* memory, std::size_t bytes, int peer, direction side) {
    int const world_rank = operation_.world_rank(peer);
    if (world_->has_given_up(world_rank)) return transfers_.push_back({nullptr, side, world_rank});
    auto message = world_->make_buffer(memory, bytes);
    auto const slot = parallel::detail::mixed_slot(operation_.slot, bytes);
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
                         transfers_[first_].peer, " in ", describe(operation_.call)));
  }

  void stop_if_left(int peer) {
    auto const departure = world_->left_since(peer);
    if (!departure || steady_time::clock::now() - departure->time < max_notice_delay) return;
    stop<aborted>(
        departure->is_announced
            ? concat("rank ", peer,
                     " has returned from its program or ended its communicator, but rank ",
                     own_rank(), " waits for it in ", describe(operation_.call), " (call ",
                     operation_.call.sequence,
                     "); all ranks must make the same calls in the same order")
            : concat("rank ", peer, " is gone: its connection to rank ", own_rank(),
                     " was closed without a word, as when a process is killed or its machine "
                     "fails; rank ",
                     own_rank(), " waited for it in ", describe(operation_.call), " (call ",
                     operation_.call.sequence, ")"));
  }

  world* world_;
  message_operation operation_;
  std::vector<transfer> transfers_;
  std::size_t first_ = 0;  // the first transfer that may be incomplete
  std::vector<int> missing_;
};

/// The calls of all ranks of `operation`. Blocks; throws at the deadline, naming the ranks that are
/// missing, and the calls of the others.
[[nodiscard]] inline std::vector<signature> exchange_signatures(
    world& shared_world, message_operation const& operation) {
  std::vector<signature> signatures(operation.world_ranks->size(), operation.call);
  batch messages(shared_world, operation);
  parallel::detail::post_calls(messages, operation, signatures);
  auto const missing = messages.wait_for_missing();
  if (missing.empty()) return signatures;
  std::string present_ranks;
  for (std::size_t peer = 0; peer < signatures.size(); ++peer) {
    int const world_rank = operation.world_rank(static_cast<int>(peer));
    if (static_cast<int>(peer) != operation.rank &&
        !std::binary_search(missing.begin(), missing.end(), world_rank))
      present_ranks += concat("; rank ", world_rank, " came: ", describe(signatures[peer]));
  }
  messages.stop(messages.overdue(present_ranks));
}

}  // namespace parallel::gloo::detail
