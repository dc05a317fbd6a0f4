// mpi::detail::batch: non-blocking sends and receives that are waited for together.
//
// A message larger than an int can count goes in several MPI messages. When waiting ends without
// success (the deadline, an abort, an error), requests that MPI has not finished are cancelled as
// far as MPI can.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
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

/// A task that a rank advances while it waits for messages.
struct background_task {
  virtual ~background_task() = default;
  /// Does not block; an exception ends the waiting.
  virtual void advance() = 0;
};

class batch {
 public:
  /// Messages on `comm` with `tag`, for the operation that `call_signature` describes. While it
  /// waits, the rank advances `background`, unless that is null.
  batch(link& own_link, MPI_Comm comm, int tag, signature const& call_signature,
        background_task* background = nullptr)
      : link_(&own_link),
        comm_(comm),
        tag_(tag),
        call_signature_(call_signature),
        background_(background) {}

  batch(batch&&) = default;
  batch& operator=(batch&& other) noexcept {
    std::swap(link_, other.link_);
    std::swap(comm_, other.comm_);
    std::swap(tag_, other.tag_);
    std::swap(call_signature_, other.call_signature_);
    std::swap(background_, other.background_);
    std::swap(requests_, other.requests_);
    std::swap(transfers_, other.transfers_);
    std::swap(completed_count_, other.completed_count_);
    std::swap(last_completion_, other.last_completion_);
    return *this;
  }
  ~batch() { give_up(); }

  void send(void const* from, std::size_t bytes, int peer) {
    for_each_message(bytes, [&](std::size_t first, int count) {
      post(peer, count, false);
      check(MPI_Isend(static_cast<std::byte const*>(from) + first, count, MPI_BYTE, peer, tag_,
                      comm_, &requests_.back()),
            "MPI_Isend");
    });
  }

  void recv(void* to, std::size_t bytes, int peer) {
    for_each_message(bytes, [&](std::size_t first, int count) {
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

  /// Blocks until all are done, or until the deadline: then it returns the world ranks that are
  /// missing. Throws when a rank aborts.
  std::vector<int> wait_for_missing() {
    patience limit(link_->options().deadline.get());
    backoff pace;
    while (!is_done()) {
      if (advance()) {
        pace.reset();
        continue;
      }
      if (background_ != nullptr) background_->advance();
      if (limit.is_over()) return missing();
      pace.pause();
    }
    return {};
  }

  [[nodiscard]] bool is_done() const { return requests_.empty(); }

  /// Whether some messages have completed since the last call. Throws when a rank aborts, and when
  /// a rank that is missing has ended its communicator.
  bool advance() {
    if (is_done()) return false;
    auto const time = std::chrono::steady_clock::now();
    if (int const count = test(); count != 0) {
      last_completion_ = time;
      completed_count_ += static_cast<std::size_t>(count);
      if (completed_count_ == requests_.size()) {
        requests_.clear();
        transfers_.clear();
        completed_count_ = 0;
      }
      return true;
    }
    if (time - last_completion_ > max_flight_time) stop_if_one_left(time);
    return false;
  }

  /// World ranks of the peers whose messages have not completed.
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> out;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL) out.push_back(link_->world_rank(transfers_[i].peer));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// The message for the deadline; `present_ranks` describes the ranks that have arrived.
  [[nodiscard]] std::string overdue(std::string const& present_ranks) const {
    return overdue_message(call_signature_, link_->world_rank(link_->rank()),
                           link_->options().deadline.seconds(), missing()) +
           present_ranks;
  }

 private:
  struct transfer {
    int peer = 0;
    int bytes = 0;
    bool receives = false;
  };

  // The longest time between a sender's farewell and its last message, which may take another
  // route.
  static constexpr auto max_flight_time = std::chrono::seconds(1);

  // The number of requests that have completed. Throws when a rank aborts.
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

  void stop_if_one_left(steady_time time) const {
    for (int const rank : missing()) {
      auto const left_at = link_->left_since(rank);
      if (!left_at || time - *left_at < max_flight_time) continue;
      auto const message = concat(
          "rank ", rank, " has returned from its program or ended its communicator, but rank ",
          link_->world_rank(link_->rank()), " waits for it in ", describe(call_signature_),
          " (call ", call_signature_.sequence,
          "); all ranks must make the same calls in the same order");
      link_->abort(message);
      throw error(message);
    }
  }

  template <class F>
  void for_each_message(std::size_t bytes, F&& f) {
    auto const max_bytes = static_cast<std::size_t>(link_->options().message_bytes);
    std::scoped_lock const lock(link_->env().mutex());
    std::size_t first = 0;
    do {
      std::size_t const count = std::min(max_bytes, bytes - first);
      f(first, static_cast<int>(count));
      first += count;
    } while (first < bytes);
  }

  // The message says what this rank waited for, so that the errors of all ranks show who waited for
  // whom.
  void stop_if_aborted() const {
    try {
      link_->throw_if_aborted_locked();
    } catch (aborted const& reason) {
      throw aborted(concat(reason.what(), "; rank ", link_->world_rank(link_->rank()),
                           " waited for ", name_ranks(missing()), " in ",
                           describe(call_signature_)));
    }
  }

  void post(int peer, int bytes, bool receives) {
    transfers_.push_back({peer, bytes, receives});
    requests_.push_back(MPI_REQUEST_NULL);
  }

  // A message of another length means that the ranks do not agree on the operation.
  void verify(transfer const& expected, MPI_Status const& status, int code) const {
    int received = expected.bytes;
    bool const failed = code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS;
    if (expected.receives && !failed) MPI_Get_count(&status, MPI_BYTE, &received);
    if (!failed && received == expected.bytes) return;
    int cause = MPI_SUCCESS;
    if (failed) MPI_Error_class(status.MPI_ERROR, &cause);
    bool const longer = cause == MPI_ERR_TRUNCATE;
    if (failed && !longer) check(status.MPI_ERROR, describe(call_signature_));
    fail(describe(call_signature_), ": rank ", link_->world_rank(expected.peer), " sent ",
         longer ? "more" : "fewer", " bytes than the ", expected.bytes, " that rank ",
         link_->world_rank(link_->rank()),
         " expects; the ranks make different calls (use `checked` to see which)");
  }

  // Frees the requests if MPI completes them within 200 ms, the limit for all of them.
  void give_up() noexcept {
    if (requests_.empty()) return;
    auto const limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    bool first = true;
    backoff pace;
    for (;; pace.pause()) {
      std::scoped_lock const lock(link_->env().mutex());
      int are_all_done = 1;
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i] == MPI_REQUEST_NULL) continue;
        if (first && transfers_[i].receives) MPI_Cancel(&requests_[i]);
        int is_done = 0;
        MPI_Test(&requests_[i], &is_done, MPI_STATUS_IGNORE);
        if (is_done == 0) are_all_done = 0;
      }
      first = false;
      if (are_all_done != 0) return;
      if (link_->env().is_stuck() || std::chrono::steady_clock::now() > limit)
        return link_->env().note_stuck();
    }
  }

  link* link_;
  MPI_Comm comm_;
  int tag_;
  signature call_signature_;
  background_task* background_;
  std::vector<MPI_Request> requests_;
  std::vector<transfer> transfers_;
  std::size_t completed_count_ = 0;  // number of completed requests
  steady_time last_completion_ =
      std::chrono::steady_clock::now();  // when the last request completed
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace parallel::mpi::detail
