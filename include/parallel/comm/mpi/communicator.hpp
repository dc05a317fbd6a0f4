// mpi::communicator: ranks are MPI processes.
//
// MPI carries messages only; the collectives are those of detail/direct.hpp, so that results have
// the same bits as with threads. MPI is called from the worker of the stream that an operation was
// enqueued on, always with the environment's mutex held. Host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
#include <parallel/comm/mpi/announcement.hpp>
#include <parallel/comm/mpi/batch.hpp>
#include <parallel/comm/mpi/environment.hpp>
#include <parallel/comm/mpi/link.hpp>
#include <parallel/core/failures.hpp>

namespace parallel::mpi {

namespace detail {

/// The transport (detail/direct.hpp) of one operation.
struct operation_transport {
  link& over;
  MPI_Comm comm;
  int tag;
  signature what;
  seen_to* beside = nullptr;

  [[nodiscard]] int rank() const { return over.rank(); }
  [[nodiscard]] int size() const { return over.size(); }
  [[nodiscard]] std::size_t piece_bytes() const { return over.options().piece_bytes; }
  [[nodiscard]] batch begin() const { return {over, comm, tag, what, beside}; }
};

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
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return link_->abort_reason(); }

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    return submit_beside(s, op,
                         [](auto const&...) { return std::unique_ptr<detail::announcement>(); });
  }

  /// Enqueues a collective in which ranks compare what they call, and give up together when
  /// `judge(signatures by rank)` finds something wrong. It takes no longer than without: what is
  /// compared travels beside the data. Until it is found to be wrong, data may have been received.
  request submit_compared(host::stream& s, operation const& op, signature const& mine,
                          detail::judgement judge) {
    return submit_beside(s, op,
                         [mine, judge = std::move(judge),
                          tag = link_->tag_of(exchanges_++, 2, 3)](detail::link& link) {
                           return std::make_unique<detail::announcement>(link, tag, mine, judge);
                         });
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [link = link_, tag = link_->tag_of(exchanges_++, 2, 3)](signature const& mine) {
      detail::announcement all(*link, tag, mine, [](auto const&) { return std::string(); });
      all.wait();
      return all.all();
    };
  }

  /// See `has_split`. All ranks meet in any case: MPI's own split knows no deadline.
  [[nodiscard]] communicator split(coloring const& by, std::string name = {}) {
    auto const colors = parallel::detail::exchanged_colors(open_exchange(), by, rank());
    auto const part = parallel::detail::part_of(colors, rank());
    return {std::make_shared<detail::link>(link_, part.color, part.members), std::move(name)};
  }

 private:
  /// `announce(link)` begins what is seen to while the operation runs, or gives null.
  template <class Announce>
  request submit_beside(host::stream& s, operation const& op, Announce announce) {
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
                 ranks = size(), announce = std::move(announce)] {
      link->throw_if_aborted();
      auto const comm = is_message(op.kind) ? link->messages() : link->calls();
      auto const told = announce(*link);
      detail::operation_transport over{*link, comm, tag, signature_of(op, number, axis),
                                       told.get()};
      if (op.peer >= 0) over.what.peer = link->world_rank(op.peer);
      try {
        for_each_part(op, [&](operation const& part) {
          parallel::detail::through_host(mover, part, ranks, [&](operation const& reachable) {
            parallel::detail::run_direct(over, reachable);
          });
        });
      } catch (aborted const&) {
        throw;
      } catch (timed_out const&) {
        throw;  // the others are told already: asked again, `told` would meet this rank's own abort
      } catch (error const&) {
        if (told) told->wait();  // it knows better why
        throw;
      }
      if (told) told->wait();
    };
    return parallel::detail::enqueue(s, {link_, world_rank(rank())}, op, std::move(work));
  }

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
