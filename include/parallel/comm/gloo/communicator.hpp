// gloo::communicator: ranks are processes that gloo connects over TCP; no MPI is needed.
//
// gloo carries messages only; the collectives are those of detail/direct.hpp, so that results have
// the same bits as with threads and MPI. Host memory.
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
#include <parallel/comm/detail/part.hpp>
#include <parallel/comm/detail/through_host.hpp>
#include <parallel/comm/gloo/batch.hpp>
#include <parallel/comm/gloo/world.hpp>

namespace parallel::gloo {

namespace detail {

/// The transport (detail/direct.hpp) of one operation.
struct operation_transport {
  world& over;
  group const& ranks;
  std::uint64_t slot;
  signature what;

  [[nodiscard]] int rank() const { return ranks.rank; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks.names.size()); }
  [[nodiscard]] std::size_t piece_bytes() const { return over.options().piece_bytes; }
  [[nodiscard]] batch begin() const { return {over, ranks, slot, what}; }
};

/// What every rank of the group is about to do, this one `mine`. Blocks; throws at the deadline,
/// naming who is missing, and what the others do.
[[nodiscard]] inline std::vector<signature> exchange_signatures(world& over, group const& ranks,
                                                                std::uint64_t slot,
                                                                signature const& mine) {
  std::vector<signature> all(ranks.names.size(), mine);
  batch messages(over, ranks, slot, mine);
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (static_cast<int>(peer) == ranks.rank) continue;
    messages.recv(&all[peer], sizeof mine, static_cast<int>(peer));
    messages.send(&mine, sizeof mine, static_cast<int>(peer));
  }
  auto const missing = messages.wait_for_missing();
  if (missing.empty()) return all;
  std::string others;
  for (std::size_t peer = 0; peer < all.size(); ++peer)
    if (static_cast<int>(peer) != ranks.rank &&
        !std::binary_search(missing.begin(), missing.end(), ranks.names[peer]))
      others += concat("; rank ", ranks.names[peer], " came: ", describe(all[peer]));
  messages.stop(messages.overdue(others));
}

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// All ranks of the options, which say who this one is. Blocks until all have come.
  explicit communicator(communicator_options options)
      : world_(std::make_shared<detail::world>(std::move(options))) {
    auto whole = std::make_shared<detail::group>();
    whole->names.resize(static_cast<std::size_t>(world_->options().ranks));
    std::iota(whole->names.begin(), whole->names.end(), 0);
    whole->rank = world_->options().rank;
    group_ = std::move(whole);
  }

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return group_->rank; }
  [[nodiscard]] int size() const { return static_cast<int>(group_->names.size()); }
  [[nodiscard]] int world_rank(int rank) const {
    return group_->names[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Makes every rank's pending and later operations fail with `aborted`, naming this rank and the
  /// reason. The processes go on.
  void abort(std::string const& reason) {
    world_->abort(concat("rank ", world_rank(rank()), " failed: ", reason));
  }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return world_->stopped(); }

  /// Enqueues `op`. Ranks whose lengths differ wait to the deadline; `checked` says so before.
  request submit(host::stream& s, operation const& op) {
    bool const message = is_message(op.kind);
    auto const number = message ? messages_[{op.kind, op.peer, op.tag}]++ : calls_++;
    auto const slot = detail::mix(group_->id, message ? 1 : 2, number, op.tag);
    auto work = [world = world_, ranks = group_, op, number, slot, axis = name_,
                 mover = parallel::detail::moving(s)] {
      if (auto const reason = world->stopped()) throw aborted(*reason);
      detail::operation_transport over{*world, *ranks, slot, signature_of(op, number, axis)};
      if (op.peer >= 0) over.what.peer = ranks->names[static_cast<std::size_t>(op.peer)];
      for_each_part(op, [&](operation const& part) {
        parallel::detail::through_host(mover, part, over.size(), [&](operation const& reachable) {
          parallel::detail::run_direct(over, reachable);
        });
      });
    };
    return parallel::detail::enqueue(s, {world_, world_rank(rank())}, op, std::move(work));
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [world = world_, ranks = group_,
            slot = detail::mix(group_->id, 3, exchanges_++)](signature const& mine) {
      if (auto const reason = world->stopped()) throw aborted(*reason);
      return detail::exchange_signatures(*world, *ranks, slot, mine);
    };
  }

  /// See `has_split`; nobody waits where the colors of all are known.
  [[nodiscard]] communicator split(coloring const& by, std::string name = {}) {
    auto const number = parallel::detail::split_number(by, splits_, exchanges_);
    auto const colors =
        parallel::detail::colors_of(by, rank(), size(), [&] { return open_exchange(); });
    auto const part = parallel::detail::part_of(colors, rank());
    auto const id = detail::mix(group_->id, 4, number, part.color);
    auto ranks =
        std::make_shared<detail::group>(detail::group{.id = id, .names = {}, .rank = part.rank});
    for (int const member : part.members) ranks->names.push_back(world_rank(member));
    return {world_, std::move(ranks), std::move(name)};
  }

 private:
  communicator(std::shared_ptr<detail::world> over, std::shared_ptr<detail::group const> part,
               std::string name)
      : world_(std::move(over)), group_(std::move(part)), name_(std::move(name)) {}

  std::shared_ptr<detail::world> world_;
  std::shared_ptr<detail::group const> group_;
  std::string name_;  // of the axis
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t splits_ = 0;  // of known colors
  std::map<std::tuple<operation_kind, int, int>, std::uint64_t> messages_;
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::gloo
