// queued::communicator: ranks that share a queued::device exchange on its streams.
//
// An exchange suspends its queue until all ranks have arrived. The last rank to arrive does the
// work of all ranks, in rank order, and resumes the queues. No thread waits, neither the caller's
// nor one of the device. (Only `split` waits on the calling thread; it is called at the start.)
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/detail/subgroup.hpp>

#include "support/devices/queued_stream.hpp"

namespace queued {

using parallel::operation;
using parallel::signature;

/// One rank's share of an exchange.
struct participant {
  operation op;
  signature call;
  std::shared_ptr<parallel::detail::buffer_owners> owners;
  std::shared_ptr<queue> waiting;

  void resume(std::exception_ptr const& failure) {
    owners.reset();
    waiting->resume(failure);
  }
};

template <class Byte>
Byte* advance(Byte* base, std::size_t bytes) {
  return base == nullptr ? base : base + bytes;
}
inline std::byte const* in(participant const& rank, std::size_t bytes = 0) {
  return advance(static_cast<std::byte const*>(rank.op.in), bytes);
}
inline std::byte* out(participant const& rank, std::size_t bytes = 0) {
  return advance(static_cast<std::byte*>(rank.op.out), bytes);
}
inline void copy(std::byte* destination, std::byte const* source, std::size_t bytes) {
  if (destination != source && bytes > 0) std::memcpy(destination, source, bytes);
}

/// Does the work of all ranks. For a message, the sender is first.
inline void exchange(std::vector<participant> const& ranks) {
  using enum parallel::operation_kind;
  operation const& op = ranks[0].op;
  std::size_t const n = ranks.size(), bytes = op.bytes();
  auto const sum = [&](std::vector<void*> const& outs, std::size_t offset) {
    std::vector<void const*> sources;
    for (auto const& rank : ranks) sources.push_back(in(rank, offset));
    parallel::detail::combine(op.type, op.combine, outs, sources, op.count);
  };
  std::vector<void*> outs;
  switch (op.kind) {
    case all_reduce:
      for (auto const& rank : ranks) outs.push_back(out(rank));
      return sum(outs, 0);
    case reduce_scatter:
      for (std::size_t r = 0; r < n; ++r) sum({out(ranks[r])}, r * bytes);
      return;
    case all_gather:
      for (auto const& rank : ranks)
        for (std::size_t r = 0; r < n; ++r) copy(out(rank, r * bytes), in(ranks[r]), bytes);
      return;
    case all_to_all:
      for (std::size_t destination = 0; destination < n; ++destination)
        for (std::size_t r = 0; r < n; ++r)
          copy(out(ranks[destination], r * bytes), in(ranks[r], destination * bytes), bytes);
      return;
    case broadcast:
      for (auto const& rank : ranks)
        copy(out(rank), in(ranks[static_cast<std::size_t>(op.peer)]), bytes);
      return;
    case send:
    case recv: return copy(out(ranks[1]), in(ranks[0]), bytes);
    case group:
      for (std::size_t k = 0; k < op.members->size(); ++k) {
        auto parts = ranks;
        for (auto& rank : parts) rank.op = operation((*rank.op.members)[k]);
        exchange(parts);
      }
      return;
    case barrier:
    case split:
    case agreement: return;
  }
}

/// The meeting point of the ranks of one program.
class world final : public parallel::abortable {
 public:
  explicit world(int size) : size_(size) {}
  [[nodiscard]] int size() const { return size_; }

  void abort(std::string const& reason) override {
    std::map<key, rendezvous> stopped;
    {
      std::scoped_lock const lock(mutex_);
      if (!reason_) reason_ = reason;
      stopped.swap(open_rendezvous_);
    }
    changed_.notify_all();
    for (auto& [id, meeting] : stopped)
      for (auto& participant_slot : meeting.arrived)
        if (participant_slot)
          participant_slot->resume(std::make_exception_ptr(parallel::aborted(reason)));
  }

 private:
  friend class communicator;
  /// Group; sender, receiver and tag of a message, or -1 for an exchange of all ranks; number.
  using key = std::tuple<int, int, int, int, std::uint64_t>;
  struct rendezvous {
    std::vector<std::optional<participant>> arrived;
    std::size_t missing = 0;
  };
  struct signature_exchange_state {
    std::vector<signature> signatures;
    std::size_t missing = 0;
  };

  /// Participant `position` of `count` arrives.
  void arrive(key const& id, std::size_t position, std::size_t count,
              participant participant_of_rank) {
    std::vector<participant> participants;
    {
      std::unique_lock lock(mutex_);
      if (reason_) {
        auto const stopped = std::make_exception_ptr(parallel::aborted(*reason_));
        lock.unlock();
        return participant_of_rank.resume(stopped);
      }
      auto& meeting = open_rendezvous_[id];
      if (meeting.arrived.empty()) {
        meeting.arrived.resize(count);
        meeting.missing = count;
      }
      meeting.arrived[position] = std::move(participant_of_rank);
      if (--meeting.missing > 0) return;
      for (auto& participant_slot : meeting.arrived)
        participants.push_back(std::move(*participant_slot));
      open_rendezvous_.erase(id);
    }
    std::vector<signature> calls;
    for (auto const& participant_slot : participants) calls.push_back(participant_slot.call);
    auto const wrong = parallel::is_message(participants[0].op.kind)
                           ? parallel::message_disagreement(calls[0], 0, calls[1], 1)
                           : parallel::disagreement(calls);
    std::exception_ptr failure;
    if (wrong.empty()) {
      exchange(participants);
    } else {
      failure = std::make_exception_ptr(parallel::error(wrong));
      abort(wrong);
    }
    for (auto& participant_slot : participants) participant_slot.resume(failure);
  }

  /// Returns the signatures of all ranks. Blocks the calling thread.
  std::vector<signature> exchange_signatures(key const& id, std::size_t position, std::size_t count,
                                             signature const& own_signature) {
    std::unique_lock lock(mutex_);
    auto& entry = roll_calls_[id];
    if (!entry)
      entry = std::make_shared<signature_exchange_state>(
          signature_exchange_state{std::vector<signature>(count), count});
    auto const exchange_state = entry;
    exchange_state->signatures[position] = own_signature;
    if (--exchange_state->missing == 0) changed_.notify_all();
    changed_.wait(lock, [&] { return exchange_state->missing == 0 || reason_; });
    if (exchange_state->missing > 0) throw parallel::aborted(*reason_);
    roll_calls_.erase(id);
    return exchange_state->signatures;
  }

  int group_of(int group, std::uint64_t number, int color) {
    std::scoped_lock const lock(mutex_);
    return groups_.try_emplace({group, number, color}, static_cast<int>(groups_.size()) + 1)
        .first->second;
  }

  int const size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> reason_;
  std::map<key, rendezvous> open_rendezvous_;  // exchanges that are not complete
  std::map<key, std::shared_ptr<signature_exchange_state>> roll_calls_;
  std::map<std::tuple<int, std::uint64_t, int>, int> groups_;
};

class communicator : public parallel::collectives<communicator, stream> {
 public:
  communicator(std::shared_ptr<world> shared_world, int rank)
      : world_(std::move(shared_world)), rank_(rank) {
    for (int r = 0; r < world_->size(); ++r) ranks_.push_back(r);
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string_view name() const { return name_; }
  void abort(std::string const& reason) {
    world_->abort(parallel::concat("rank ", world_rank(rank_), " failed: ", reason));
  }

  request_type submit(stream& s, operation const& op) {
    world::key id{group_, -1, -1, -1, 0};
    std::size_t position = static_cast<std::size_t>(rank_), count = ranks_.size();
    if (parallel::is_message(op.kind)) {
      bool const is_send = op.kind == parallel::operation_kind::send;
      id = {group_, is_send ? rank_ : op.peer, is_send ? op.peer : rank_, op.tag, 0};
      position = is_send ? 0 : 1;
      count = 2;
    }
    std::uint64_t const number = calls_[id]++;
    std::get<4>(id) = number;
    auto owners = std::make_shared<parallel::detail::buffer_owners>();
    std::weak_ptr<parallel::detail::buffer_owners> const weak = owners;
    s.put_aside([shared = world_, id, position, count, op, call = signature_of(op, number, name_),
                 owners = std::move(owners)](std::shared_ptr<queue> waiting) mutable {
      shared->arrive(id, position, count, {op, call, std::move(owners), std::move(waiting)});
    });
    return {s.record(), weak, {world_, world_rank(rank_)}, op};
  }

  /// Works on the calling thread only.
  [[nodiscard]] parallel::signature_exchange open_exchange(stream const* unused_stream = nullptr) {
    parallel::require(unused_stream == nullptr,
                      "queued: signatures are exchanged by the calling thread alone");
    world::key const id{group_, -2, -2, -2, exchanges_++};
    return [shared = world_, id, position = static_cast<std::size_t>(rank_),
            count = ranks_.size()](signature const& own_signature) {
      return shared->exchange_signatures(id, position, count, own_signature);
    };
  }

  [[nodiscard]] communicator split(parallel::coloring const& coloring, std::string name = {}) {
    auto const number = parallel::detail::split_number(coloring, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(coloring, rank_, size(), [&] { return open_exchange(); });
    auto const own_part = parallel::detail::subgroup_of(colors, rank_);
    communicator out(world_, own_part.rank);
    out.group_ = world_->group_of(group_, number, own_part.color);
    out.name_ = std::move(name);
    out.ranks_.clear();
    for (int const member : own_part.ranks) out.ranks_.push_back(world_rank(member));
    return out;
  }

 private:
  std::shared_ptr<world> world_;
  std::string name_;
  int group_ = 0;
  std::vector<int> ranks_;  // the world ranks of the group
  int rank_ = 0;            // in the group
  std::map<world::key, std::uint64_t> calls_;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;  // splits of known colors
};

using any_communicator = parallel::basic_any_communicator<stream>;
static_assert(parallel::has_collectives<communicator, float> &&
              parallel::has_split<any_communicator>);

/// Calls program(communicator) in a thread for each rank; rethrows the first failure that was not
/// caused by another one.
template <class Program>
void run(int ranks, Program program) {
  auto const shared = std::make_shared<world>(ranks);
  std::mutex mutex;
  std::exception_ptr cause, echo;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          program(communicator(shared, rank));
        } catch (parallel::aborted const&) {
          std::scoped_lock const lock(mutex);
          echo = std::current_exception();
        } catch (std::exception const& thrown) {
          {
            std::scoped_lock const lock(mutex);
            if (!cause) cause = std::current_exception();
          }
          shared->abort(thrown.what());
        }
      });
  }
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

}  // namespace queued
