// message_communicator: a communicator over any network that carries messages between ranks.
//
// The network sends and receives bytes; the collectives, sub-communicators and signatures are made
// here from its messages (detail/direct.hpp), so that results have the same bits as with threads
// and MPI. gloo::communicator is one; docs/examples/own_communicator.cpp is another, over sockets.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/direct.hpp>
#include <parallel/comm/detail/subgroup.hpp>
#include <parallel/comm/detail/through_host.hpp>

namespace parallel {

/// The operation that a batch of messages belongs to.
struct message_operation {
  /// Identifies the operation, with the same value on all of its ranks: a message of one slot must
  /// never be received as one of another. At least `first_slot`; a network may use smaller ones.
  std::uint64_t slot = 0;
  /// The network's ranks that take part, by their rank in the communicator.
  std::vector<int> const* world_ranks = nullptr;
  /// This process's rank in the communicator.
  int rank = 0;
  /// What the ranks do, for error messages (`overdue_message`).
  signature call = {};

  static constexpr std::uint64_t first_slot = 16;

  /// The network's number of `peer`, a rank of the communicator.
  [[nodiscard]] int world_rank(int peer) const {
    return (*world_ranks)[static_cast<std::size_t>(peer)];
  }
};

/// A network: one process's connections to all ranks, shared by its communicators. Several threads
/// call it at the same time.
///
/// - `rank()`, `size()`: this process's number among all processes
/// - `piece_bytes()`: collectives send pieces of this size, 8 at a time for each rank
/// - `begin(operation)`: a batch of messages, with `send(from, bytes, peer)` and `recv(to, bytes,
///   peer)`, where `peer` is a rank of the communicator. Neither waits for the other rank; both may
///   have 0 bytes. Messages of one slot between two ranks arrive in the order of the calls.
///   `wait()` blocks until all are done, and the memory may be used again. It throws `timed_out`
///   with `overdue_message` at a deadline, and `aborted` after `abort`.
/// - `abort(reason)` (of `abortable`): makes the pending and later waits of every rank that can be
///   reached throw `aborted` with this text
/// - `stop_reason()`: the text, once this rank has aborted or has learned that another one has;
/// when
///   `abort` returns there is one, also where another rank's came first
///
/// A network may have `exchange(operation)`, which gives every rank's `operation.call` by rank, in
/// place of the exchange that is made of its messages, to name the ranks that have arrived.
template <class N>
concept message_network = std::derived_from<N, abortable> &&
    requires(N network, N const& fixed, message_operation const& operation) {
  { fixed.rank() } -> std::convertible_to<int>;
  { fixed.size() } -> std::convertible_to<int>;
  { fixed.piece_bytes() } -> std::convertible_to<std::size_t>;
  { network.begin(operation) } -> detail::message_batch;
  { network.stop_reason() } -> std::same_as<std::optional<std::string>>;
};

namespace detail {

/// The transport (detail/direct.hpp) of one operation of a network.
template <class Network>
struct network_transport {
  Network& network;
  message_operation operation;

  [[nodiscard]] int rank() const { return operation.rank; }
  [[nodiscard]] int size() const { return static_cast<int>(operation.world_ranks->size()); }
  [[nodiscard]] std::size_t piece_bytes() const { return network.piece_bytes(); }
  [[nodiscard]] auto begin() { return network.begin(operation); }
};

/// The number of a slot, which depends on all of these numbers.
template <class... Numbers>
[[nodiscard]] std::uint64_t mixed_slot(Numbers... numbers) {
  std::uint64_t out = 0;
  for (auto const number : {static_cast<std::uint64_t>(numbers)...}) {  // splitmix64's steps
    out += 0x9e3779b97f4a7c15ULL + number;
    out = (out ^ (out >> 30)) * 0xbf58476d1ce4e5b9ULL;
    out = (out ^ (out >> 27)) * 0x94d049bb133111ebULL;
    out ^= out >> 31;
  }
  return std::max(out, message_operation::first_slot);
}

/// Sends `operation.call` to every other rank by `messages`, which then receive theirs into
/// `calls`.
template <message_batch Batch>
void post_calls(Batch& messages, message_operation const& operation,
                std::vector<signature>& calls) {
  for (std::size_t peer = 0; peer < calls.size(); ++peer) {
    if (static_cast<int>(peer) == operation.rank) continue;
    messages.recv(&calls[peer], sizeof operation.call, static_cast<int>(peer));
    messages.send(&operation.call, sizeof operation.call, static_cast<int>(peer));
  }
}

/// Every rank's `operation.call`, by rank. Blocks.
template <class Network>
[[nodiscard]] std::vector<signature> exchange_calls(Network& network,
                                                    message_operation const& operation) {
  if constexpr (requires { network.exchange(operation); }) {
    return network.exchange(operation);
  } else {
    std::vector<signature> calls(operation.world_ranks->size(), operation.call);
    auto messages = network.begin(operation);
    post_calls(messages, operation, calls);
    messages.wait();
    return calls;
  }
}

}  // namespace detail

/// The ranks of a network, or of a part of it. Memory that the CPU cannot reach is staged in host
/// memory.
template <message_network Network>
class message_communicator : public collectives<message_communicator<Network>, host::stream> {
 public:
  /// All ranks of the network.
  explicit message_communicator(std::shared_ptr<Network> network)
      : network_(std::move(network)), ranks_(std::make_shared<group>()) {
    ranks_->world_ranks.resize(static_cast<std::size_t>(network_->size()));
    std::iota(ranks_->world_ranks.begin(), ranks_->world_ranks.end(), 0);
    ranks_->rank = network_->rank();
  }

  message_communicator(message_communicator&&) = default;
  message_communicator& operator=(message_communicator&&) = default;

  [[nodiscard]] int rank() const { return present_group().rank; }
  [[nodiscard]] int size() const { return static_cast<int>(present_group().world_ranks.size()); }
  [[nodiscard]] int world_rank(int rank) const {
    return present_group().world_ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Makes every rank's pending and later operations fail with `aborted`, naming this rank and the
  /// reason. The processes continue.
  void abort(std::string const& reason) {
    network_->abort(concat("rank ", world_rank(rank()), " failed: ", reason));
  }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return network_->stop_reason(); }

  /// Enqueues `op`. Ranks whose lengths differ wait until the deadline; `checked` finds that
  /// earlier.
  request submit(host::stream& s, operation const& op) {
    bool const message = is_message(op.kind);
    auto const number = message ? messages_[{op.kind, op.peer, op.tag}]++ : calls_++;
    auto const slot = detail::mixed_slot(present_group().id, message ? 1 : 2, number, op.tag);
    auto work = [network = network_, ranks = ranks_, op, number, slot, axis = name_,
                 mover = detail::exchange_mover(s)] {
      if (auto const reason = network->stop_reason()) throw aborted(*reason);
      detail::network_transport<Network> transport{
          *network, {slot, &ranks->world_ranks, ranks->rank, signature_of(op, number, axis)}};
      if (op.peer >= 0) transport.operation.call.peer = transport.operation.world_rank(op.peer);
      for_each_member(op, [&](operation const& member) {
        detail::through_host(mover, member, transport.size(), [&](operation const& reachable) {
          detail::run_direct(transport, reachable);
        });
      });
    };
    return detail::enqueue(s, {network_, world_rank(rank())}, op, std::move(work));
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return
        [network = network_, ranks = ranks_,
         slot = detail::mixed_slot(present_group().id, 3, exchanges_++)](signature const& local) {
          if (auto const reason = network->stop_reason()) throw aborted(*reason);
          return detail::exchange_calls(*network, {slot, &ranks->world_ranks, ranks->rank, local});
        };
  }

  /// See `has_split`; no rank waits if all colors are known.
  [[nodiscard]] message_communicator split(coloring const& rank_colors, std::string name = {}) {
    auto const number = detail::split_number(rank_colors, splits_, exchanges_);
    auto const colors =
        detail::colors_of(rank_colors, rank(), size(), [&] { return open_exchange(); });
    auto const subgroup = detail::subgroup_of(colors, rank());
    auto part = std::make_shared<group>();
    part->id = detail::mixed_slot(present_group().id, 4, number, subgroup.color);
    part->rank = subgroup.rank;
    for (int const member : subgroup.ranks) part->world_ranks.push_back(world_rank(member));
    message_communicator out(network_);
    out.ranks_ = std::move(part);
    out.name_ = std::move(name);
    return out;
  }

 private:
  struct group {
    std::uint64_t id = 0;          // unique among the groups of a network
    std::vector<int> world_ranks;  // of its ranks
    int rank = 0;                  // of this process
  };
  [[nodiscard]] group& present_group() const { return detail::held_by_communicator(ranks_); }

  std::shared_ptr<Network> network_;
  std::shared_ptr<group> ranks_;
  std::string name_;  // of the axis
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;  // with known colors
  std::map<std::tuple<operation_kind, int, int>, std::uint64_t> messages_;
};

}  // namespace parallel
