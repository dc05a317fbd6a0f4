// threads::communicator: ranks are threads; they read and write each other's memory directly.
//
// No rank copies more than necessary: in an all_reduce every rank combines its chunk of all inputs
// and stores it to all outputs, which moves 2(n-1)/n of the data per rank, as a ring would.
// Signatures are compared in every call, since a mismatch would be an access out of bounds. The
// memory may be any that the stream's data_mover, or without one the CPU, can reach, for example
// that of one GPU shared by several ranks.
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
#include <parallel/comm/detail/exchange_mover.hpp>
#include <parallel/comm/detail/subgroup.hpp>
#include <parallel/comm/threads/world.hpp>

namespace parallel::threads {

namespace detail {

template <class Void>
auto* advance_pointer(Void* base, std::size_t bytes) {
  using byte = std::conditional_t<std::is_const_v<Void>, std::byte const, std::byte>;
  return bytes == 0 ? base : static_cast<Void*>(static_cast<byte*>(base) + bytes);
}

// Bytes that leave a rank's memory for another rank's count as sent by it, whichever rank copies.
inline void count_sent(std::atomic<std::uint64_t>* counter, std::size_t bytes) {
  if (counter != nullptr) *counter += bytes;
}

/// The operations of a rendezvous, by rank.
using operations = std::vector<operation const*>;

// Copies `bytes` to rank `rank`, from byte `first` of the input of rank `from`.
inline void copy_from_rank(parallel::detail::exchange_mover const& mover, void* to,
                           operations const& by_rank, int from, std::size_t first,
                           std::size_t bytes, int rank) {
  operation const& source = *by_rank[static_cast<std::size_t>(from)];
  mover.copy(to, advance_pointer(source.in, first), bytes);
  if (from != rank) count_sent(source.sent, bytes);
}

// Rank `rank` combines `chunk` of every rank's input; the chunk is counted in elements.
inline void combine_chunk(parallel::detail::exchange_mover const& mover, operation const& op,
                          operations const& by_rank, int rank, parallel::detail::chunk chunk,
                          std::vector<void*> const& outs) {
  if (chunk.count == 0) return;
  std::size_t const bytes = chunk.count * size_of(op.type);
  std::vector<void const*> sources;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    sources.push_back(advance_pointer(by_rank[i]->in, chunk.first * size_of(op.type)));
    if (i != static_cast<std::size_t>(rank)) count_sent(by_rank[i]->sent, bytes);
  }
  mover.combine(op.type, op.combine, outs, sources, chunk.count);
  count_sent(op.sent, bytes * (outs.size() - 1));
}

/// Does this rank's share of a complete rendezvous. Does not wait.
template <class = void>
void run_share(parallel::detail::exchange_mover const& mover, operation const& op,
               operations const& by_rank, int rank) {
  auto const r = static_cast<std::size_t>(rank);
  auto const ranks = static_cast<int>(by_rank.size());
  auto const out_shard = [&](int i) {
    return advance_pointer(op.out, static_cast<std::size_t>(i) * op.bytes());
  };
  switch (op.kind) {
    case operation_kind::all_reduce: {
      auto const chunk = parallel::detail::chunk_of(op.count, rank, ranks);
      std::vector<void*> outs;
      for (operation const* rank_op : by_rank)
        outs.push_back(advance_pointer(rank_op->out, chunk.first * size_of(op.type)));
      return combine_chunk(mover, op, by_rank, rank, chunk, outs);
    }
    case operation_kind::reduce_scatter:
      return combine_chunk(mover, op, by_rank, rank, {r * op.count, op.count}, {op.out});
    case operation_kind::all_gather:
      for (int i = 0; i < ranks; ++i)
        copy_from_rank(mover, out_shard(i), by_rank, i, 0, op.bytes(), rank);
      return;
    case operation_kind::all_to_all:
      for (int i = 0; i < ranks; ++i)
        copy_from_rank(mover, out_shard(i), by_rank, i, r * op.bytes(), op.bytes(), rank);
      return;
    case operation_kind::broadcast:
      return copy_from_rank(mover, op.out, by_rank, op.peer, 0, op.bytes(), rank);
    case operation_kind::recv: return copy_from_rank(mover, op.out, by_rank, 0, 0, op.bytes(), 1);
    case operation_kind::group:
      for (std::size_t k = 0; k < op.members->size(); ++k) {
        operations members;
        for (operation const* rank_op : by_rank) members.push_back(&(*rank_op->members)[k]);
        run_share(mover, (*op.members)[k], members, rank);
      }
      return;
    case operation_kind::barrier:
    case operation_kind::send:
    case operation_kind::split:
    case operation_kind::agreement: return;
  }
}

/// A call of a rank from its submission until the rank arrives at the rendezvous. If it is
/// destroyed earlier, as by a stream that has failed, the rank never arrives.
class queued_call {
 public:
  queued_call(std::shared_ptr<world> shared_world, rendezvous_name name, int rank,
              std::thread::id worker)
      : world_(std::move(shared_world)), name_(name), rank_(rank) {
    world_->record_queued(name_, rank_, worker);
  }
  queued_call(queued_call&&) = delete;
  ~queued_call() {
    if (!has_arrived_) world_->record_dropped(name_, rank_);
  }

  void mark_arrived() { has_arrived_ = true; }

 private:
  std::shared_ptr<world> world_;
  rendezvous_name name_;
  int rank_;
  bool has_arrived_ = false;
};

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// Rank `rank` of `world`; every rank makes one communicator.
  communicator(std::shared_ptr<world> world, int rank) : world_(std::move(world)), rank_(rank) {
    world_->take_rank(rank);
    for (int r = 0; r < world_->size(); ++r) ranks_.push_back(r);
  }

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int world_rank(int rank) const {
    static_cast<void>(parallel::detail::held_by_communicator(world_));
    return ranks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Wakes all ranks of the world with an `aborted` error that names this rank and the reason.
  void abort(std::string const& reason) { world_->abort_by(world_rank(rank_), reason); }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return world_->abort_reason(); }

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    bool const sends = op.kind == operation_kind::send;
    int const own_rank = world_rank(rank_);
    int const peer = op.peer < 0 ? op.peer : world_rank(op.peer);
    detail::rendezvous_name name{.group = group_};
    std::vector<int> ranks;
    if (is_message(op.kind)) {
      ranks = sends ? std::vector{own_rank, peer} : std::vector{peer, own_rank};
      name.kind = detail::rendezvous_kind::message;
      name.from = ranks[0];
      name.to = ranks[1];
      name.tag = op.tag;
      name.number = messages_[name]++;
    } else {
      ranks = ranks_;
      name.number = calls_++;
    }
    auto call_signature = signature_of(op, name.number, name_);
    call_signature.peer = peer;
    auto meet = [world = world_, own_rank, rank = rank_, op, name, ranks, call_signature,
                 mover = parallel::detail::exchange_mover(s),
                 call = std::make_shared<detail::queued_call>(world_, name, own_rank, s.worker())] {
      call->mark_arrived();
      auto const meeting = world->enter(name, ranks, own_rank, {call_signature, op});
      std::exception_ptr failure;
      try {
        detail::operations operations;
        for (auto const& participant : meeting->participants) operations.push_back(&participant.op);
        detail::run_share(mover, op, operations, rank);
        mover.finish();
      } catch (...) {
        failure = std::current_exception();
      }
      world->leave(*meeting, own_rank);  // waits, since other ranks use this rank's memory
      if (failure) std::rethrow_exception(failure);
    };
    return parallel::detail::enqueue(s, {world_, own_rank}, op, std::move(meet));
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* s = nullptr) {
    detail::rendezvous_name const name{
        .group = group_, .kind = detail::rendezvous_kind::exchange, .number = exchanges_++};
    int const own_rank = world_rank(rank_);
    auto const worker = s != nullptr ? s->worker() : std::thread::id();
    return [world = world_, own_rank, name, ranks = ranks_,
            call = std::make_shared<detail::queued_call>(world_, name, own_rank, worker)](
               signature const& local) {
      call->mark_arrived();
      return world->exchange(name, ranks, own_rank, local);
    };
  }

  /// See `has_split`; no rank waits if all colors are known.
  [[nodiscard]] communicator split(coloring const& rank_colors, std::string name = {}) {
    static_cast<void>(parallel::detail::held_by_communicator(world_));
    auto const number = parallel::detail::split_number(rank_colors, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(rank_colors, rank_, size(), [&] { return open_exchange(); });
    auto const subgroup = parallel::detail::subgroup_of(colors, rank_);
    communicator out(world_);
    out.group_ = world_->group_of(group_, number, subgroup.color);
    out.rank_ = subgroup.rank;
    out.name_ = std::move(name);
    for (int const member : subgroup.ranks) out.ranks_.push_back(world_rank(member));
    return out;
  }

 private:
  // A sub-communicator of the world, whose ranks are not set yet.
  explicit communicator(std::shared_ptr<world> world) : world_(std::move(world)) {}

  std::shared_ptr<world> world_;
  std::string name_;        // of the axis
  int group_ = 0;           // 0: the world
  std::vector<int> ranks_;  // world ranks of the group
  int rank_ = 0;            // in the group
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;                                   // with known colors
  std::map<detail::rendezvous_name, std::uint64_t> messages_;  // numbers of messages, by route
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::threads
