// mpi::detail::batch: non-blocking sends and receives that are waited for together.
//
// Larger than an int can count goes in several messages. When waiting ends without success (the
// deadline, an abort, an error) what MPI has not finished is cancelled as far as MPI can.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/mpi/link.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::mpi::detail {

/// Something else to be seen to while messages are waited for.
struct seen_to {
  virtual ~seen_to() = default;
  /// Does not block; what it throws ends the waiting.
  virtual void advance() = 0;
};

class batch {
 public:
  /// Messages on `comm` with `tag`, on behalf of the operation that `what` describes. Whoever waits
  /// sees to `beside`, unless that is null.
  batch(link& over, MPI_Comm comm, int tag, signature const& what, seen_to* beside = nullptr)
      : link_(&over), comm_(comm), tag_(tag), what_(what), beside_(beside) {}

  batch(batch&&) = default;
  batch& operator=(batch&& other) noexcept {
    std::swap(link_, other.link_);
    std::swap(comm_, other.comm_);
    std::swap(tag_, other.tag_);
    std::swap(what_, other.what_);
    std::swap(beside_, other.beside_);
    std::swap(requests_, other.requests_);
    std::swap(transfers_, other.transfers_);
    std::swap(over_, other.over_);
    std::swap(moved_, other.moved_);
    return *this;
  }
  ~batch() { give_up(); }

  void send(void const* from, std::size_t bytes, int peer) {
    in_messages(bytes, [&](std::size_t first, int count) {
      post(peer, count, false);
      check(MPI_Isend(static_cast<std::byte const*>(from) + first, count, MPI_BYTE, peer, tag_,
                      comm_, &requests_.back()),
            "MPI_Isend");
    });
  }

  void recv(void* to, std::size_t bytes, int peer) {
    in_messages(bytes, [&](std::size_t first, int count) {
      post(peer, count, true);
      check(MPI_Irecv(static_cast<std::byte*>(to) + first, count, MPI_BYTE, peer, tag_, comm_,
                      &requests_.back()),
            "MPI_Irecv");
    });
  }

  /// Blocks until all are done. Throws at the deadline, naming the ranks that are missing, and when
  /// a rank aborts.
  void wait() {
    if (wait_for_missing().empty()) return;
    std::string const message = overdue({});
    link_->abort(message);
    throw timed_out(message);
  }

  /// Blocks until all are done, or to the deadline: then it returns the missing ranks, as the world
  /// calls them. Throws when a rank aborts.
  std::vector<int> wait_for_missing() {
    patience limit(link_->options().deadline.get());
    backoff pace;
    while (!done()) {
      if (advance()) {
        pace.reset();
        continue;
      }
      if (beside_ != nullptr) beside_->advance();
      if (limit.over()) return missing();
      pace.pause();
    }
    return {};
  }

  [[nodiscard]] bool done() const { return requests_.empty(); }

  /// Whether some of them have come to their end since it was last asked. Throws when a rank
  /// aborts, and when one that is missing has ended its communicator.
  bool advance() {
    if (done()) return false;
    auto const now = std::chrono::steady_clock::now();
    if (int const count = test(); count != 0) {
      moved_ = now;
      over_ += static_cast<std::size_t>(count);
      if (over_ == requests_.size()) {
        requests_.clear();
        transfers_.clear();
        over_ = 0;
      }
      return true;
    }
    if (now - moved_ > in_flight) stop_if_one_left(now);
    return false;
  }

  /// Whose messages have not come to their end, as the world calls them.
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> out;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL) out.push_back(link_->world_rank(transfers_[i].peer));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// The sentence for the deadline; `others` says what is known of the ranks that came.
  [[nodiscard]] std::string overdue(std::string const& others) const {
    return concat(describe(what_), " (call ", what_.sequence, "): rank ",
                  link_->world_rank(link_->rank()), " waited ", link_->options().deadline.seconds(),
                  " s for ", name_ranks(missing()), others);
  }

 private:
  struct transfer {
    int peer = 0;
    int bytes = 0;
    bool receives = false;
  };

  // How long a message may come after its sender's farewell, which may take another way.
  static constexpr auto in_flight = std::chrono::seconds(1);

  // How many requests have come to their end. Throws when a rank aborts.
  int test() {
    finished_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    std::scoped_lock const lock(link_->env().mutex());
    int const code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  finished_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count == MPI_UNDEFINED) count = 0;
    for (int i = 0; i < count; ++i)
      verify(transfers_[static_cast<std::size_t>(finished_[static_cast<std::size_t>(i)])],
             statuses_[static_cast<std::size_t>(i)], code);
    if (count == 0) stop_if_aborted();
    return count;
  }

  void stop_if_one_left(steady_time now) const {
    for (int const rank : missing()) {
      auto const since = link_->left_since(rank);
      if (!since || now - *since < in_flight) continue;
      auto const message = concat(
          "rank ", rank, " has returned from its program or ended its communicator, but rank ",
          link_->world_rank(link_->rank()), " waits for it in ", describe(what_), " (call ",
          what_.sequence, "); all ranks must make the same calls in the same order");
      link_->abort(message);
      throw error(message);
    }
  }

  template <class F>
  void in_messages(std::size_t bytes, F&& f) {
    auto const most = static_cast<std::size_t>(link_->options().message_bytes);
    std::scoped_lock const lock(link_->env().mutex());
    std::size_t first = 0;
    do {
      std::size_t const count = std::min(most, bytes - first);
      f(first, static_cast<int>(count));
      first += count;
    } while (first < bytes);
  }

  // Says what this rank waited for: side by side, the ranks' errors tell who waited for whom.
  void stop_if_aborted() const {
    try {
      link_->throw_if_aborted_locked();
    } catch (aborted const& stopped) {
      throw aborted(concat(stopped.what(), "; rank ", link_->world_rank(link_->rank()),
                           " waited for ", name_ranks(missing()), " in ", describe(what_)));
    }
  }

  void post(int peer, int bytes, bool receives) {
    transfers_.push_back({peer, bytes, receives});
    requests_.push_back(MPI_REQUEST_NULL);
  }

  // A message of another length means that the ranks do not agree on the operation.
  void verify(transfer const& what, MPI_Status const& status, int code) const {
    int received = what.bytes;
    bool const failed = code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS;
    if (what.receives && !failed) MPI_Get_count(&status, MPI_BYTE, &received);
    if (!failed && received == what.bytes) return;
    int cause = MPI_SUCCESS;
    if (failed) MPI_Error_class(status.MPI_ERROR, &cause);
    bool const longer = cause == MPI_ERR_TRUNCATE;
    if (failed && !longer) check(status.MPI_ERROR, describe(what_));
    fail(describe(what_), ": rank ", link_->world_rank(what.peer), " sent ",
         longer ? "more" : "fewer", " bytes than the ", what.bytes, " that rank ",
         link_->world_rank(link_->rank()),
         " expects; the ranks make different calls (use `checked` to see which)");
  }

  // Leaves no request behind if MPI lets go of them within a moment, which all share.
  void give_up() noexcept {
    if (requests_.empty()) return;
    auto const limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    bool first = true;
    backoff pace;
    for (;; pace.pause()) {
      std::scoped_lock const lock(link_->env().mutex());
      int all = 1;
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i] == MPI_REQUEST_NULL) continue;
        if (first && transfers_[i].receives) MPI_Cancel(&requests_[i]);
        int done = 0;
        MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
        if (done == 0) all = 0;
      }
      first = false;
      if (all != 0) return;
      if (link_->env().is_stuck() || std::chrono::steady_clock::now() > limit)
        return link_->env().note_stuck();
    }
  }

  link* link_;
  MPI_Comm comm_;
  int tag_;
  signature what_;
  seen_to* beside_;
  std::vector<MPI_Request> requests_;
  std::vector<transfer> transfers_;
  std::size_t over_ = 0;                                  // of the requests
  steady_time moved_ = std::chrono::steady_clock::now();  // when the last of them ended
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace parallel::mpi::detail
