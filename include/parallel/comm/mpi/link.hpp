// mpi::detail::link: the state behind an mpi::communicator, shared with its enqueued operations.
//
// Waiting never spins: requests are tested, with sleeps that grow to 80 microseconds while nothing
// happens. A control message tells all ranks when one aborts, so that they stop waiting and know
// the reason; MPI can only end all processes. The link of a sub-communicator has its own MPI
// communicators, and aborts together with the communicator from which it was split. At its end a
// link sends all ranks a farewell, so that no rank waits until the deadline for a rank that makes
// no more calls.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/mpi/environment.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::mpi {

/// How long ranks wait for each other, and how their collectives are cut.
struct communicator_options {
  /// The time that a rank waits for the others in one operation (at least 30 s while the
  /// communicator is constructed). Sub-communicators share it.
  shared_deadline deadline = std::chrono::seconds(600);
  /// Collectives send pieces of this size, many at a time; staging memory is 8 times that for each
  /// rank. Open MPI sends up to 64 KiB over TCP at once; for more it first asks the receiver, and
  /// while compute occupies the cores, an answer takes longer than the piece.
  std::size_t piece_bytes = std::size_t{60} << 10;
  /// Longer messages are split: MPI counts in int.
  int message_bytes = 1 << 30;
};

namespace detail {

/// Sleeps longer and longer while nothing happens; call `reset` when something did.
class backoff {
 public:
  void reset() { tests_ = 0; }
  void pause() {
    if (++tests_ <= 3) return;
    auto const doublings = std::min(tests_ - 4, 3);
    std::this_thread::sleep_for(std::chrono::microseconds(10 << doublings));
  }

 private:
  int tests_ = 0;
};

class link final : public parallel::abortable {
 public:
  /// Collective over all ranks of the environment.
  link(environment& env, communicator_options options) : env_(env), options_(options) {
    require(options.message_bytes >= 1 && options.piece_bytes >= 1,
            "mpi::communicator: piece_bytes and message_bytes must be at least 1");
    duplicate(calls_);
    duplicate(messages_);
    std::scoped_lock const lock(env_.mutex());
    read_shape();
    world_ranks_.resize(static_cast<std::size_t>(size_));
    std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
    check(MPI_Irecv(received_notice_.data(), static_cast<int>(received_notice_.size()), MPI_CHAR,
                    MPI_ANY_SOURCE, control_tag, calls_, &notice_request_),
          "MPI_Irecv");
    farewells_.assign(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    left_at_.resize(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
        check(MPI_Irecv(nullptr, 0, MPI_CHAR, peer, farewell_tag, calls_,
                        &farewells_[static_cast<std::size_t>(peer)]),
              "MPI_Irecv");
  }

  /// The sub-communicator of `color` of `whole`, with `members` in the order of their ranks. All
  /// ranks of the whole must have arrived.
  link(std::shared_ptr<link> const& whole, int color, std::span<int const> members)
      : env_(whole->env_), options_(whole->options_), root_(whole->root_ ? whole->root_ : whole) {
    for (int const member : members) world_ranks_.push_back(whole->world_rank(member));
    std::scoped_lock const lock(env_.mutex());
    for (MPI_Comm* const comm : {&calls_, &messages_}) {
      check(MPI_Comm_split(whole->calls_, color, whole->rank_, comm), "MPI_Comm_split");
      MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    }
    read_shape();
  }

  link(link&&) = delete;

  ~link() override {
    if (!root_ && give_up_reason_) abort(*give_up_reason_);  // no rank has given a better reason
    // A notice is small and is normally sent immediately, unless its receiver has not called MPI
    // for long.
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    backoff pace;
    for (;; pace.pause()) {
      std::scoped_lock const lock(env_.mutex());
      int all_done = 0;
      MPI_Testall(static_cast<int>(primary_requests_.size()), primary_requests_.data(), &all_done,
                  MPI_STATUSES_IGNORE);
      if (all_done != 0) break;
      if (std::chrono::steady_clock::now() < limit) continue;
      env_.note_stuck();
      break;
    }
    std::scoped_lock const lock(env_.mutex());
    if (notice_request_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&notice_request_);
      MPI_Wait(&notice_request_, MPI_STATUS_IGNORE);
    }
    if (!root_) send_farewells();
    if (stopped()) return;  // messages of given-up operations may still be under way
    MPI_Comm_free(&calls_);
    MPI_Comm_free(&messages_);
  }

  /// Sends the reason to all ranks. Any thread may call it.
  void abort(std::string const& reason) override {
    if (root_) return root_->abort(reason);
    std::scoped_lock const lock(env_.mutex());
    receive_notice();
    if (reason_) return;
    reason_ = reason;
    std::size_t const length = std::min(reason.size(), sent_notice_.size() - 1);
    std::copy_n(reason.begin(), length, sent_notice_.begin());
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Isend(sent_notice_.data(), static_cast<int>(sent_notice_.size()), MPI_CHAR, peer,
                control_tag, calls_, &primary_requests_.emplace_back(MPI_REQUEST_NULL));
    }
  }

  /// Ends the waits of this rank; the other ranks learn the reason by an abort, or at the end of
  /// this link.
  void give_up(int rank, std::string const& reason) override {
    if (root_) return root_->give_up(rank, reason);
    std::scoped_lock const lock(env_.mutex());
    if (!give_up_reason_) give_up_reason_ = reason;
  }

  /// The reason why this rank must stop waiting, if there is one.
  [[nodiscard]] std::optional<std::string> abort_reason() {
    if (root_) return root_->abort_reason();
    std::scoped_lock const lock(env_.mutex());
    receive_notice();
    return reason_ ? reason_ : give_up_reason_;
  }

  /// Throws `aborted` when this or another rank has aborted.
  void throw_if_aborted() {
    std::scoped_lock const lock(env_.mutex());
    throw_if_aborted_locked();
  }
  /// throw_if_aborted for a caller that holds the mutex.
  void throw_if_aborted_locked() {
    if (root_) return root_->throw_if_aborted_locked();
    receive_notice();
    if (reason_) throw aborted(*reason_);
    if (give_up_reason_) throw aborted(*give_up_reason_);
  }

  /// When the rank with world rank `rank` is known to have ended this communicator, after which it
  /// makes no call on it or on its sub-communicators.
  [[nodiscard]] std::optional<steady_time> left_since(int rank) {
    if (root_) return root_->left_since(rank);
    auto& left_at = left_at_[static_cast<std::size_t>(rank)];
    auto& farewell = farewells_[static_cast<std::size_t>(rank)];
    std::scoped_lock const lock(env_.mutex());
    if (left_at || farewell == MPI_REQUEST_NULL) return left_at;
    int has_left = 0;
    MPI_Test(&farewell, &has_left, MPI_STATUS_IGNORE);
    if (has_left != 0) left_at = std::chrono::steady_clock::now();
    return left_at;
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int world_rank(int rank) const {
    return world_ranks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] environment& env() { return env_; }
  [[nodiscard]] communicator_options const& options() const { return options_; }
  [[nodiscard]] MPI_Comm calls() const { return calls_; }
  [[nodiscard]] MPI_Comm messages() const { return messages_; }

  /// The MPI tag of the number-th use of slot `slot` out of `slots`; numbers far apart share tags.
  [[nodiscard]] int tag_of(std::uint64_t number, std::uint64_t slot, std::uint64_t slots) const {
    return static_cast<int>((number % ((tag_limit_ + 1) / slots)) * slots + slot);
  }

 private:
  [[nodiscard]] bool stopped() const { return root_ ? root_->stopped() : reason_.has_value(); }

  void read_shape() {
    MPI_Comm_rank(calls_, &rank_);
    MPI_Comm_size(calls_, &size_);
    void* value = nullptr;
    int found = 0;
    MPI_Comm_get_attr(calls_, MPI_TAG_UB, &value, &found);
    tag_limit_ = found != 0 ? static_cast<std::uint64_t>(*static_cast<int*>(value)) : 32767;
  }

  // MPI makes a communicator in many rounds, to which a short deadline for one operation does not
  // apply; if only some ranks give up, MPI is unable to make another communicator.
  static constexpr auto min_creation_time = std::chrono::seconds(30);

  static constexpr int control_tag = 0;  // slot 0 of 3 is never used by calls
  static constexpr int farewell_tag = 3;

  // Not MPI_Comm_dup: the worker of another communicator may need MPI before the other ranks
  // arrive.
  void duplicate(MPI_Comm& out) {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      std::scoped_lock const lock(env_.mutex());
      check(MPI_Comm_idup(MPI_COMM_WORLD, &out, &request), "MPI_Comm_idup");
    }
    auto const limit =
        std::chrono::steady_clock::now() +
        std::max<std::chrono::milliseconds>(options_.deadline.get(), min_creation_time);
    backoff pace;
    for (;; pace.pause()) {
      std::scoped_lock const lock(env_.mutex());
      int is_complete = 0;
      check(MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE), "MPI_Comm_idup");
      if (is_complete != 0) break;
      if (std::chrono::steady_clock::now() < limit) continue;
      env_.note_stuck();
      fail<timed_out>("mpi::communicator: not all of the ", env_.size(),
                      " ranks made this communicator before the deadline");
    }
    std::scoped_lock const lock(env_.mutex());
    MPI_Comm_set_errhandler(out, MPI_ERRORS_RETURN);
  }

  // The other ranks may receive it, and send theirs, after this link is gone: MPI ends after that.
  void send_farewells() {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
        MPI_Isend(nullptr, 0, MPI_CHAR, peer, farewell_tag, calls_,
                  &farewells_.emplace_back(MPI_REQUEST_NULL));
    env_.finish_before_end(farewells_);
  }

  void receive_notice() {
    if (notice_request_ == MPI_REQUEST_NULL) return;
    int is_complete = 0;
    MPI_Test(&notice_request_, &is_complete, MPI_STATUS_IGNORE);
    if (is_complete == 0) return;
    received_notice_.back() = '\0';
    if (!reason_) reason_ = received_notice_.data();
  }

  environment& env_;
  communicator_options options_;
  std::shared_ptr<link> root_;    // of a sub-communicator: the whole, which receives aborts
  std::vector<int> world_ranks_;  // world rank of each rank
  MPI_Comm calls_ = MPI_COMM_NULL;
  MPI_Comm messages_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t tag_limit_ = 32767;
  std::optional<std::string> reason_;
  std::optional<std::string> give_up_reason_;
  std::array<char, 2048> received_notice_ = {};
  std::array<char, 2048> sent_notice_ = {};
  MPI_Request notice_request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> primary_requests_;
  std::vector<MPI_Request> farewells_;               // from each rank to this one
  std::vector<std::optional<steady_time>> left_at_;  // by rank
};

}  // namespace detail
}  // namespace parallel::mpi
