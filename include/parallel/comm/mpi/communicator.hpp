// mpi::communicator: ranks are MPI processes.
//
// MPI carries messages only; the collectives are those of detail/direct.hpp, so that results have
// the same bits as with threads. MPI is called from the worker of the stream that an operation was
// enqueued on, always with the environment's mutex held. Host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/direct.hpp>
#include <parallel/comm/detail/part.hpp>
#include <parallel/comm/detail/through_host.hpp>
#include <parallel/comm/mpi/batch.hpp>
#include <parallel/comm/mpi/environment.hpp>
#include <parallel/comm/mpi/link.hpp>

namespace parallel::mpi {

namespace detail {

/// The transport (detail/direct.hpp) of one operation.
struct operation_transport {
  link& over;
  MPI_Comm comm;
  int tag;
  signature what;

  [[nodiscard]] int rank() const { return over.rank(); }
  [[nodiscard]] int size() const { return over.size(); }
  [[nodiscard]] std::size_t piece_bytes() const { return over.options().piece_bytes; }
  [[nodiscard]] batch begin() const { return {over, comm, tag, what}; }
};

/// Gives `mine` to everybody; returns what everybody gave. At the deadline it says where the ranks
/// that came are.
inline std::vector<signature> exchange(link& over, int tag, signature const& mine) {
  std::vector<signature> all(static_cast<std::size_t>(over.size()), mine);
  batch messages(over, over.calls(), tag, mine);
  for (int peer = 0; peer < over.size(); ++peer) {
    if (peer == over.rank()) continue;
    messages.recv(&all[static_cast<std::size_t>(peer)], sizeof mine, peer);
    messages.send(&mine, sizeof mine, peer);
  }
  auto const missing = messages.wait_for_missing();
  if (missing.empty()) return all;
  std::string others;
  for (int peer = 0; peer < over.size(); ++peer)
    if (peer != over.rank() &&
        !std::binary_search(missing.begin(), missing.end(), over.world_rank(peer)))
      others += concat("; rank ", over.world_rank(peer),
                       " came: ", describe(all[static_cast<std::size_t>(peer)]));
  std::string const message = messages.overdue(others);
  over.abort(message);
  throw error(message);
}

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// All processes of the environment, which must outlive it. Every rank makes its communicators in
  /// the same order; messages of one never mix with those of another.
  explicit communicator(environment& env, communicator_options options = {})
      : link_(std::make_shared<detail::link>(env, options)) {}

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return link_->rank(); }
  [[nodiscard]] int size() const { return link_->size(); }
  [[nodiscard]] int world_rank(int rank) const { return link_->world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Makes every rank's pending and later operations fail with `aborted`, naming this rank and the
  /// reason. The processes go on; `environment::end_all_ranks` ends them.
  void abort(std::string const& reason) {
    link_->abort(concat("rank ", world_rank(rank()), " failed: ", reason));
  }

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    std::uint64_t number = 0;
    int tag = 0;
    if (is_message(op.kind)) {
      number = messages_[{op.kind, op.peer, op.tag}]++;
      tag = link_->tag_of(number, static_cast<std::uint64_t>(op.tag), max_tag + 1);
    } else {
      number = calls_++;
      tag = link_->tag_of(number, 1, 3);
    }
    auto work = [link = link_, op, number, tag, axis = name_, mover = parallel::detail::moving(s),
                 ranks = size()] {
      link->throw_if_aborted();
      auto const comm = is_message(op.kind) ? link->messages() : link->calls();
      detail::operation_transport over{*link, comm, tag, signature_of(op, number, axis)};
      if (op.peer >= 0) over.what.peer = link->world_rank(op.peer);
      parallel::detail::through_host(mover, op, ranks, [&](operation const& reachable) {
        parallel::detail::run_direct(over, reachable);
      });
    };
    return parallel::detail::enqueue(s, {link_, world_rank(rank())}, op, std::move(work));
  }

  /// A meeting without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [link = link_, tag = link_->tag_of(exchanges_++, 2, 3)](signature const& mine) {
      return detail::exchange(*link, tag, mine);
    };
  }

  /// See `has_split`.
  [[nodiscard]] communicator split(int color, std::string name = {}) {
    auto const part = parallel::detail::part_of(open_exchange(), color, rank());
    return {std::make_shared<detail::link>(link_, color, part.members), std::move(name)};
  }

 private:
  communicator(std::shared_ptr<detail::link> part, std::string name)
      : link_(std::move(part)), name_(std::move(name)) {}

  std::shared_ptr<detail::link> link_;
  std::string name_;  // of the axis
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::map<std::tuple<operation_kind, int, int>, std::uint64_t> messages_;
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::mpi
