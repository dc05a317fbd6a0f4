// gloo::communicator: ranks are processes that gloo connects over TCP; no MPI is needed.
//
// gloo carries messages only; the collectives are those of detail/direct.hpp, so that results have
// the same bits as with threads and MPI. Host memory only.
#pragma once

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

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/direct.hpp>
#include <parallel/comm/detail/subgroup.hpp>
#include <parallel/comm/detail/through_host.hpp>
#include <parallel/comm/gloo/batch.hpp>
#include <parallel/comm/gloo/world.hpp>

namespace parallel::gloo {

namespace detail {

/// The transport (detail/direct.hpp) of one operation.
struct operation_transport {
  world& shared_world;
  group const& ranks;
  std::uint64_t slot;
  signature call_signature;

  [[nodiscard]] int rank() const { return ranks.rank; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks.world_ranks.size()); }
  [[nodiscard]] std::size_t piece_bytes() const { return shared_world.options().piece_bytes; }
  [[nodiscard]] batch begin() const { return {shared_world, ranks, slot, call_signature}; }
};

/// Exchanges the signatures of all ranks of the group; `local` is this rank's. Blocks; throws at
/// the deadline, naming the ranks that are missing, and the calls of the others.
[[nodiscard]] inline std::vector<signature> exchange_signatures(world& shared_world,
                                                                group const& ranks,
                                                                std::uint64_t slot,
                                                                signature const& local) {
  std::vector<signature> signatures(ranks.world_ranks.size(), local);
  batch messages(shared_world, ranks, slot, local);
  for (std::size_t peer = 0; peer < signatures.size(); ++peer) {
    if (static_cast<int>(peer) == ranks.rank) continue;
    messages.recv(&signatures[peer], sizeof local, static_cast<int>(peer));
    messages.send(&local, sizeof local, static_cast<int>(peer));
  }
  auto const missing = messages.wait_for_missing();
  if (missing.empty()) return signatures;
  std::string present_ranks;
  for (std::size_t peer = 0; peer < signatures.size(); ++peer)
    if (static_cast<int>(peer) != ranks.rank &&
        !std::binary_search(missing.begin(), missing.end(), ranks.world_ranks[peer]))
      present_ranks +=
          concat("; rank ", ranks.world_ranks[peer], " came: ", describe(signatures[peer]));
  messages.stop(messages.overdue(present_ranks));
}

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// All ranks of the options, which contain this process's rank. Blocks until all ranks have
  /// arrived.
  explicit communicator(communicator_options options)
      : world_(std::make_shared<detail::world>(std::move(options))) {
    auto whole = std::make_shared<detail::group>();
    whole->world_ranks.resize(static_cast<std::size_t>(world_->options().ranks));
    std::iota(whole->world_ranks.begin(), whole->world_ranks.end(), 0);
    whole->rank = world_->options().rank;
    group_ = std::move(whole);
  }

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return group_->rank; }
  [[nodiscard]] int size() const { return static_cast<int>(group_->world_ranks.size()); }
  [[nodiscard]] int world_rank(int rank) const {
    return group_->world_ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Makes every rank's pending and later operations fail with `aborted`, naming this rank and the
  /// reason. The processes continue.
  void abort(std::string const& reason) {
    world_->abort(concat("rank ", world_rank(rank()), " failed: ", reason));
  }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return world_->stop_reason(); }

  /// Enqueues `op`. Ranks whose lengths differ wait until the deadline; `checked` finds that
  /// earlier.
  request submit(host::stream& s, operation const& op) {
    bool const message = is_message(op.kind);
    auto const number = message ? messages_[{op.kind, op.peer, op.tag}]++ : calls_++;
    auto const slot = detail::mix(group_->id, message ? 1 : 2, number, op.tag);
    auto work = [world = world_, ranks = group_, op, number, slot, axis = name_,
                 mover = parallel::detail::exchange_mover(s)] {
      if (auto const reason = world->stop_reason()) throw aborted(*reason);
      detail::operation_transport transport{*world, *ranks, slot, signature_of(op, number, axis)};
      if (op.peer >= 0)
        transport.call_signature.peer = ranks->world_ranks[static_cast<std::size_t>(op.peer)];
      for_each_member(op, [&](operation const& member) {
        parallel::detail::through_host(mover, member, transport.size(),
                                       [&](operation const& reachable) {
                                         parallel::detail::run_direct(transport, reachable);
                                       });
      });
    };
    return parallel::detail::enqueue(s, {world_, world_rank(rank())}, op, std::move(work));
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [world = world_, ranks = group_,
            slot = detail::mix(group_->id, 3, exchanges_++)](signature const& local) {
      if (auto const reason = world->stop_reason()) throw aborted(*reason);
      return detail::exchange_signatures(*world, *ranks, slot, local);
    };
  }

  /// See `has_split`; no rank waits if all colors are known.
  [[nodiscard]] communicator split(coloring const& rank_colors, std::string name = {}) {
    auto const number = parallel::detail::split_number(rank_colors, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(rank_colors, rank(), size(), [&] { return open_exchange(); });
    auto const subgroup = parallel::detail::subgroup_of(colors, rank());
    auto const id = detail::mix(group_->id, 4, number, subgroup.color);
    auto ranks = std::make_shared<detail::group>(
        detail::group{.id = id, .world_ranks = {}, .rank = subgroup.rank});
    for (int const member : subgroup.ranks) ranks->world_ranks.push_back(world_rank(member));
    return {world_, std::move(ranks), std::move(name)};
  }

 private:
  communicator(std::shared_ptr<detail::world> shared_world,
               std::shared_ptr<detail::group const> subgroup, std::string name)
      : world_(std::move(shared_world)), group_(std::move(subgroup)), name_(std::move(name)) {}

  std::shared_ptr<detail::world> world_;
  std::shared_ptr<detail::group const> group_;
  std::string name_;  // of the axis
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;  // with known colors
  std::map<std::tuple<operation_kind, int, int>, std::uint64_t> messages_;
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::gloo
