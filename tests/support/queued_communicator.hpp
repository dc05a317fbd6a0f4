// queued::communicator: ranks that share a queued::device exchange on its streams.
//
// An exchange puts its queue aside until all ranks have come to it; whoever comes last does the
// work of all, in rank order, and lets the queues go on. No thread waits, neither the caller nor
// one of the device. (`split` alone waits on the calling thread: it is made at the start.)
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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
#include <parallel/comm/detail/part.hpp>

#include "support/queued_stream.hpp"

namespace queued {

using parallel::operation;
using parallel::signature;

/// One rank's part in an exchange.
struct participant {
  operation op;
  signature what;
  std::shared_ptr<parallel::detail::kept> owners;
  std::shared_ptr<queue> waiting;

  void go_on(std::exception_ptr const& failure) {
    owners.reset();
    waiting->resume(failure);
  }
};

template <class Byte>
Byte* at(Byte* base, std::size_t bytes) {
  return base == nullptr ? base : base + bytes;
}
inline std::byte const* in(participant const& of, std::size_t bytes = 0) {
  return at(static_cast<std::byte const*>(of.op.in), bytes);
}
inline std::byte* out(participant const& of, std::size_t bytes = 0) {
  return at(static_cast<std::byte*>(of.op.out), bytes);
}
inline void copy(std::byte* to, std::byte const* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

/// All ranks' work; a message's sender comes first.
inline void exchange(std::vector<participant> const& ranks) {
  using enum parallel::operation_kind;
  operation const& op = ranks[0].op;
  std::size_t const n = ranks.size(), bytes = op.bytes();
  auto const sum = [&](std::vector<void*> const& outs, std::size_t from) {
    std::vector<void const*> sources;
    for (auto const& rank : ranks) sources.push_back(in(rank, from));
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
      for (std::size_t to = 0; to < n; ++to)
        for (std::size_t r = 0; r < n; ++r)
          copy(out(ranks[to], r * bytes), in(ranks[r], to * bytes), bytes);
      return;
    case broadcast:
      for (auto const& rank : ranks)
        copy(out(rank), in(ranks[static_cast<std::size_t>(op.peer)]), bytes);
      return;
    case send:
    case recv: return copy(out(ranks[1]), in(ranks[0]), bytes);
    case group:
      for (std::size_t k = 0; k < op.parts->size(); ++k) {
        auto parts = ranks;
        for (auto& rank : parts) rank.op = operation((*rank.op.parts)[k]);
        exchange(parts);
      }
      return;
    case barrier:
    case split:
    case agreement: return;
  }
}

/// Where the ranks of one program meet.
class world final : public parallel::detail::abortable {
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
    for (auto& [which, of] : stopped)
      for (auto& one : of.arrived)
        if (one) one->go_on(std::make_exception_ptr(parallel::aborted(reason)));
  }

 private:
  friend class communicator;
  /// Group, kind (-1: of all; else a message's sender, receiver and tag), number.
  using key = std::tuple<int, int, int, int, std::uint64_t>;
  struct rendezvous {
    std::vector<std::optional<participant>> arrived;
    std::size_t missing = 0;
  };
  struct roll_call {
    std::vector<signature> all;
    std::size_t missing = 0;
  };

  /// Participant `place` of `count` comes.
  void arrive(key const& which, std::size_t place, std::size_t count, participant mine) {
    std::vector<participant> all;
    {
      std::unique_lock lock(mutex_);
      if (reason_) {
        auto const stopped = std::make_exception_ptr(parallel::aborted(*reason_));
        lock.unlock();
        return mine.go_on(stopped);
      }
      auto& here = open_rendezvous_[which];
      if (here.arrived.empty()) {
        here.arrived.resize(count);
        here.missing = count;
      }
      here.arrived[place] = std::move(mine);
      if (--here.missing > 0) return;
      for (auto& one : here.arrived) all.push_back(std::move(*one));
      open_rendezvous_.erase(which);
    }
    std::vector<signature> said;
    for (auto const& one : all) said.push_back(one.what);
    auto const wrong = parallel::is_message(all[0].op.kind)
                           ? parallel::message_disagreement(said[0], 0, said[1], 1)
                           : parallel::disagreement(said);
    std::exception_ptr failure;
    if (wrong.empty()) {
      exchange(all);
    } else {
      failure = std::make_exception_ptr(parallel::error(wrong));
      abort(wrong);
    }
    for (auto& one : all) one.go_on(failure);
  }

  /// Everybody's signature. Blocks the calling thread.
  std::vector<signature> call_roll(key const& which, std::size_t place, std::size_t count,
                                   signature const& mine) {
    std::unique_lock lock(mutex_);
    auto& held = roll_calls_[which];
    if (!held) held = std::make_shared<roll_call>(roll_call{std::vector<signature>(count), count});
    auto const here = held;
    here->all[place] = mine;
    if (--here->missing == 0) changed_.notify_all();
    changed_.wait(lock, [&] { return here->missing == 0 || reason_; });
    if (here->missing > 0) throw parallel::aborted(*reason_);
    roll_calls_.erase(which);
    return here->all;
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
  std::map<key, rendezvous> open_rendezvous_;  // the incomplete ones
  std::map<key, std::shared_ptr<roll_call>> roll_calls_;
  std::map<std::tuple<int, std::uint64_t, int>, int> groups_;
};

class communicator : public parallel::collectives<communicator, stream> {
 public:
  communicator(std::shared_ptr<world> of, int rank) : world_(std::move(of)), rank_(rank) {
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
    world::key which{group_, -1, -1, -1, 0};
    std::size_t place = static_cast<std::size_t>(rank_), count = ranks_.size();
    if (parallel::is_message(op.kind)) {
      bool const sends = op.kind == parallel::operation_kind::send;
      which = {group_, sends ? rank_ : op.peer, sends ? op.peer : rank_, op.tag, 0};
      place = sends ? 0 : 1;
      count = 2;
    }
    std::uint64_t const number = calls_[which]++;
    std::get<4>(which) = number;
    auto owners = std::make_shared<parallel::detail::kept>();
    std::weak_ptr<parallel::detail::kept> const weak = owners;
    s.put_aside([of = world_, which, place, count, op, what = signature_of(op, number, name_),
                 owners = std::move(owners)](std::shared_ptr<queue> waiting) mutable {
      of->arrive(which, place, count, {op, what, std::move(owners), std::move(waiting)});
    });
    return {s.record(), weak, {world_, world_rank(rank_)}, op};
  }

  /// On the calling thread alone.
  [[nodiscard]] parallel::signature_exchange open_exchange(stream const* on = nullptr) {
    parallel::require(on == nullptr,
                      "queued: signatures are exchanged by the calling thread alone");
    world::key const which{group_, -2, -2, -2, exchanges_++};
    return [of = world_, which, place = static_cast<std::size_t>(rank_), count = ranks_.size()](
               signature const& mine) { return of->call_roll(which, place, count, mine); };
  }

  [[nodiscard]] communicator split(parallel::coloring const& by, std::string name = {}) {
    auto const number = parallel::detail::split_number(by, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(by, rank_, size(), [&] { return open_exchange(); });
    auto const part = parallel::detail::part_of(colors, rank_);
    communicator out(world_, part.rank);
    out.group_ = world_->group_of(group_, number, part.color);
    out.name_ = std::move(name);
    out.ranks_.clear();
    for (int const member : part.members) out.ranks_.push_back(world_rank(member));
    return out;
  }

 private:
  std::shared_ptr<world> world_;
  std::string name_;
  int group_ = 0;
  std::vector<int> ranks_;  // of the group, as the world counts
  int rank_ = 0;            // in the group
  std::map<world::key, std::uint64_t> calls_;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;  // of known colors
};

using any_communicator = parallel::basic_any_communicator<stream>;
static_assert(parallel::has_collectives<communicator, float> &&
              parallel::has_split<any_communicator>);

/// Calls program(communicator) in a thread for each rank; rethrows the first failure that is no
/// echo.
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
