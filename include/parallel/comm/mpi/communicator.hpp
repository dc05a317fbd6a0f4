// mpi::communicator: ranks are MPI processes.
//
// MPI carries messages only; the collectives are those of detail/direct.hpp, so that results have
// the same bits as with threads. MPI is called by the worker of the stream on which an operation
// was enqueued, always with the environment's mutex held. Host memory only.
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

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/direct.hpp>
#include <parallel/comm/detail/subgroup.hpp>
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
  link& own_link;
  MPI_Comm comm;
  int tag;
  signature call_signature;
  background_task* background = nullptr;

  [[nodiscard]] int rank() const { return own_link.rank(); }
  [[nodiscard]] int size() const { return own_link.size(); }
  [[nodiscard]] std::size_t piece_bytes() const { return own_link.options().piece_bytes; }
  [[nodiscard]] batch begin() const { return {own_link, comm, tag, call_signature, background}; }
};

}  // namespace detail

class communicator : public collectives<communicator, host::stream> {
 public:
  /// All processes of the environment, which must outlive it. Every rank makes its communicators in
  /// the same order; messages of different communicators never mix.
  explicit communicator(environment& env, communicator_options options = {})
      : link_(std::make_shared<detail::link>(env, options)) {}

  communicator(communicator&&) = default;
  communicator& operator=(communicator&&) = default;

  [[nodiscard]] int rank() const { return present_link().rank(); }
  [[nodiscard]] int size() const { return present_link().size(); }
  [[nodiscard]] int world_rank(int rank) const { return present_link().world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Makes every rank's pending and later operations fail with `aborted`, naming this rank and the
  /// reason. The processes continue; `environment::end_all_ranks` ends them.
  void abort(std::string const& reason) {
    link_->abort(concat("rank ", world_rank(rank()), " failed: ", reason));
  }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return link_->abort_reason(); }

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    return submit_with_background(
        s, op, [](auto const&...) { return std::unique_ptr<detail::announcement>(); });
  }

  /// Enqueues a collective in which ranks compare their signatures, and abort together when
  /// `judge(signatures by rank)` finds an error. It takes no longer than without: the signatures
  /// travel concurrently with the data. Data may have been received before the error is found.
  request submit_compared(host::stream& s, operation const& op, signature const& local,
                          detail::signature_check judge) {
    return submit_with_background(
        s, op,
        [local, judge = std::move(judge),
         tag = present_link().tag_of(exchanges_++, 2, 3)](detail::link& link) {
          return std::make_unique<detail::announcement>(link, tag, local, judge);
        });
  }

  /// A rendezvous without data; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [link = link_, tag = present_link().tag_of(exchanges_++, 2, 3)](signature const& local) {
      detail::announcement announced(*link, tag, local, [](auto const&) { return std::string(); });
      announced.wait();
      return announced.signatures();
    };
  }

  /// See `has_split`. All ranks always meet, since MPI's own split has no deadline.
  [[nodiscard]] communicator split(coloring const& colors_by_rank, std::string name = {}) {
    auto const colors = parallel::detail::exchange_colors(open_exchange(), colors_by_rank, rank());
    auto const subgroup = parallel::detail::subgroup_of(colors, rank());
    return {std::make_shared<detail::link>(link_, subgroup.color, subgroup.ranks), std::move(name)};
  }

 private:
  [[nodiscard]] detail::link& present_link() const {
    return parallel::detail::held_by_communicator(link_);
  }
  /// `announce(link)` starts the task that is advanced while the operation runs, or returns null.
  template <class Announce>
  request submit_with_background(host::stream& s, operation const& op, Announce announce) {
    std::uint64_t number = 0;
    int tag = 0;
    if (is_message(op.kind)) {
      number = messages_[{op.kind, op.peer, op.tag}]++;
      tag = present_link().tag_of(number, static_cast<std::uint64_t>(op.tag), max_tag + 1);
    } else {
      number = calls_++;
      tag = present_link().tag_of(number, 1, 3);
    }
    auto work = [link = link_, op, number, tag, axis = name_,
                 mover = parallel::detail::exchange_mover(s), ranks = size(),
                 announce = std::move(announce)] {
      link->throw_if_aborted();
      auto const comm = is_message(op.kind) ? link->messages() : link->calls();
      auto const announced = announce(*link);
      detail::operation_transport own_link{*link, comm, tag, signature_of(op, number, axis),
                                           announced.get()};
      if (op.peer >= 0) own_link.call_signature.peer = link->world_rank(op.peer);
      try {
        for_each_member(op, [&](operation const& member) {
          parallel::detail::through_host(mover, member, ranks, [&](operation const& reachable) {
            parallel::detail::run_direct(own_link, reachable);
          });
        });
      } catch (aborted const&) {
        throw;
      } catch (timed_out const&) {
        throw;  // the ranks have been aborted already, so waiting would only find this rank's abort
      } catch (error const&) {
        if (announced)
          announced->wait();  // throws if signatures differ, which explains the failure
        throw;
      }
      if (announced) announced->wait();
    };
    return parallel::detail::enqueue(s, {link_, world_rank(rank())}, op, std::move(work));
  }

  communicator(std::shared_ptr<detail::link> own_link, std::string name)
      : link_(std::move(own_link)), name_(std::move(name)) {}

  std::shared_ptr<detail::link> link_;
  std::string name_;  // of the axis
  std::uint64_t calls_ = 0;
  std::uint64_t exchanges_ = 0;
  std::map<std::tuple<operation_kind, int, int>, std::uint64_t> messages_;
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::mpi
