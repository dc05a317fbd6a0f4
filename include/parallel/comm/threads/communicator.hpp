// threads::communicator: ranks are threads; they read and write each other's memory directly.
//
// Nothing is copied twice: all_reduce has every rank combine its chunk of all inputs and store it
// to all outputs, at 2(n-1)/n of the data per rank, as a ring would move. Signatures are compared
// in every call, since a mismatch would be an access out of bounds. Any memory will do that the
// stream's data_mover, or without one the CPU, can reach: that of one GPU too, which several ranks
// may share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/moving.hpp>
#include <parallel/comm/detail/part.hpp>
#include <parallel/comm/threads/world.hpp>

namespace parallel::threads {

namespace detail {

template <class Void>
auto* at(Void* base, std::size_t bytes) {
  using byte = std::conditional_t<std::is_const_v<Void>, std::byte const, std::byte>;
  return bytes == 0 ? base : static_cast<Void*>(static_cast<byte*>(base) + bytes);
}

// What leaves a rank's memory for another's counts as sent by it, whoever copies.
inline void count_sent(std::atomic<std::uint64_t>* by, std::size_t bytes) {
  if (by != nullptr) *by += bytes;
}

/// What the ranks of a rendezvous do, by rank.
using operations = std::vector<operation const*>;

// Rank `rank` takes `bytes`, beginning `first` bytes into the input of rank `from`.
inline void take(parallel::detail::moving const& mover, void* to, operations const& all, int from,
                 std::size_t first, std::size_t bytes, int rank) {
  operation const& source = *all[static_cast<std::size_t>(from)];
  mover.copy(to, at(source.in, first), bytes);
  if (from != rank) count_sent(source.sent, bytes);
}

// Rank `rank` combines `part` of every rank's input, counted in elements from where each begins.
inline void combine_part(parallel::detail::moving const& mover, operation const& op,
                         operations const& all, int rank, parallel::detail::chunk part,
                         std::vector<void*> const& outs) {
  if (part.count == 0) return;
  std::size_t const bytes = part.count * size_of(op.type);
  std::vector<void const*> sources;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sources.push_back(at(all[i]->in, part.first * size_of(op.type)));
    if (i != static_cast<std::size_t>(rank)) count_sent(all[i]->sent, bytes);
  }
  mover.combine(op.type, op.combine, outs, sources, part.count);
  count_sent(op.sent, bytes * (outs.size() - 1));
}

/// This rank's share of a complete rendezvous. Waits for nobody.
inline void work(parallel::detail::moving const& mover, operation const& op, operations const& all,
                 int rank) {
  auto const r = static_cast<std::size_t>(rank);
  auto const ranks = static_cast<int>(all.size());
  auto const part_of_out = [&](int i) {
    return at(op.out, static_cast<std::size_t>(i) * op.bytes());
  };
  switch (op.kind) {
    case operation_kind::all_reduce: {
      auto const part = parallel::detail::chunk_of(op.count, rank, ranks);
      std::vector<void*> outs;
      for (operation const* one : all) outs.push_back(at(one->out, part.first * size_of(op.type)));
      return combine_part(mover, op, all, rank, part, outs);
    }
    case operation_kind::reduce_scatter:
      return combine_part(mover, op, all, rank, {r * op.count, op.count}, {op.out});
    case operation_kind::all_gather:
      for (int i = 0; i < ranks; ++i) take(mover, part_of_out(i), all, i, 0, op.bytes(), rank);
      return;
    case operation_kind::all_to_all:
      for (int i = 0; i < ranks; ++i)
        take(mover, part_of_out(i), all, i, r * op.bytes(), op.bytes(), rank);
      return;
    case operation_kind::broadcast: return take(mover, op.out, all, op.peer, 0, op.bytes(), rank);
    case operation_kind::recv: return take(mover, op.out, all, 0, 0, op.bytes(), 1);
    case operation_kind::group:
      for (std::size_t k = 0; k < op.parts->size(); ++k) {
        operations parts;
        for (operation const* one : all) parts.push_back(&(*one->parts)[k]);
        work(mover, (*op.parts)[k], parts, rank);
      }
      return;
    case operation_kind::barrier:
    case operation_kind::send:
    case operation_kind::split:
    case operation_kind::agreement: return;
  }
}

/// A call of a rank between being made and coming to its rendezvous. Gone before that, as what a
/// failed stream leaves out, it never comes.
class queued_call {
 public:
  queued_call(std::shared_ptr<world> of, rendezvous_name name, int rank, std::thread::id worker)
      : world_(std::move(of)), name_(name), rank_(rank) {
    world_->queued(name_, rank_, worker);
  }
  queued_call(queued_call const&) = delete;
  queued_call& operator=(queued_call const&) = delete;
  ~queued_call() {
    if (!came_) world_->dropped(name_, rank_);
  }

  void comes() { came_ = true; }

 private:
  std::shared_ptr<world> world_;
  rendezvous_name name_;
  int rank_;
  bool came_ = false;
};

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// Rank `rank` of `world`; every rank makes one.
  communicator(std::shared_ptr<world> world, int rank) : world_(std::move(world)), rank_(rank) {
    world_->take_rank(rank);
    for (int r = 0; r < world_->size(); ++r) ranks_.push_back(r);
  }

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Wakes all ranks of the world with an `aborted` error that names this rank and the reason.
  void abort(std::string const& reason) { world_->abort_by(world_rank(rank_), reason); }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return world_->abort_reason(); }

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    bool const sends = op.kind == operation_kind::send;
    int const me = world_rank(rank_);
    int const peer = op.peer < 0 ? op.peer : world_rank(op.peer);
    detail::rendezvous_name name{.group = group_};
    std::vector<int> ranks;
    if (is_message(op.kind)) {
      ranks = sends ? std::vector{me, peer} : std::vector{peer, me};
      name.kind = detail::rendezvous_kind::message;
      name.from = ranks[0];
      name.to = ranks[1];
      name.tag = op.tag;
      name.number = messages_[name]++;
    } else {
      ranks = ranks_;
      name.number = calls_++;
    }
    auto what = signature_of(op, name.number, name_);
    what.peer = peer;
    auto meet = [world = world_, me, rank = rank_, op, name, ranks, what,
                 mover = parallel::detail::moving(s),
                 call = std::make_shared<detail::queued_call>(world_, name, me, s.worker())] {
      call->comes();
      auto const here = world->enter(name, ranks, me, {what, op});
      std::exception_ptr failure;
      try {
        detail::operations all;
        for (auto const& one : here->participants) all.push_back(&one.op);
        detail::work(mover, op, all, rank);
        mover.finish();
      } catch (...) {
        failure = std::current_exception();
      }
      world->leave(*here, me);  // the others use this rank's memory
      if (failure) std::rethrow_exception(failure);
    };
    return parallel::detail::enqueue(s, {world_, me}, op, std::move(meet));
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* on = nullptr) {
    detail::rendezvous_name const name{
        .group = group_, .kind = detail::rendezvous_kind::exchange, .number = exchanges_++};
    int const me = world_rank(rank_);
    auto const worker = on != nullptr ? on->worker() : std::thread::id();
    return [world = world_, me, name, ranks = ranks_,
            call = std::make_shared<detail::queued_call>(world_, name, me, worker)](
               signature const& mine) {
      call->comes();
      return world->exchange(name, ranks, me, mine);
    };
  }

  /// See `has_split`; nobody waits where the colors of all are known.
  [[nodiscard]] communicator split(coloring const& by, std::string name = {}) {
    auto const number = parallel::detail::split_number(by, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(by, rank_, size(), [&] { return open_exchange(); });
    auto const part = parallel::detail::part_of(colors, rank_);
    communicator out(world_);
    out.group_ = world_->group_of(group_, number, part.color);
    out.rank_ = part.rank;
    out.name_ = std::move(name);
    for (int const member : part.members) out.ranks_.push_back(world_rank(member));
    return out;
  }

 private:
  // A part of the world, without its ranks yet.
  explicit communicator(std::shared_ptr<world> world) : world_(std::move(world)) {}

  std::shared_ptr<world> world_;
  std::string name_;        // of the axis
  int group_ = 0;           // 0: the world
  std::vector<int> ranks_;  // of the group, as the world counts
  int rank_ = 0;            // in the group
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;                                   // of known colors
  std::map<detail::rendezvous_name, std::uint64_t> messages_;  // sent and received so far, by route
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::threads
