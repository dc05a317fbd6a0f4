// A communicator of your own: processes that exchange messages over sockets.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/message_communicator.hpp>
#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/failures.hpp>
#include <parallel/parallel.hpp>

namespace {

// [guide: socket_network]
/// The sockets of one process to all others. A thread for each socket reads what arrives and puts
/// it into a box by sender and slot, where the batches of any thread find it.
class socket_network final : public parallel::abortable {
 public:
  /// `sockets[r]` is connected to rank r; the entry of this rank is not used.
  socket_network(int rank, std::vector<int> sockets, std::chrono::milliseconds deadline)
      : rank_(rank), sockets_(std::move(sockets)), sending_(sockets_.size()), deadline_(deadline) {
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_) readers_.emplace_back([this, peer] { read_all(peer); });
  }
  ~socket_network() override {
    for (int peer = 0; peer < size(); ++peer)  // the other end reads all, then the end of the file
      if (peer != rank_) ::shutdown(socket(peer), SHUT_WR);
    for (auto& reader : readers_) reader.join();
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_) ::close(socket(peer));
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(sockets_.size()); }
  std::size_t piece_bytes() const { return 65536; }

  /// Sends that are done when the call returns, and receives that `wait` completes.
  class batch {
   public:
    batch(socket_network& network, parallel::message_operation const& operation)
        : network_(&network), operation_(operation) {}

    void send(void const* from, std::size_t bytes, int peer) {
      network_->send(operation_.world_rank(peer), operation_.slot, from, bytes);
    }
    void recv(void* to, std::size_t bytes, int peer) {
      receives_.push_back({to, bytes, operation_.world_rank(peer)});
    }
    void wait() {
      for (auto const& [to, bytes, peer] : receives_)
        network_->receive(operation_, peer, to, bytes);
      receives_.clear();
    }

   private:
    socket_network* network_;
    parallel::message_operation operation_;
    std::vector<std::tuple<void*, std::size_t, int>> receives_;
  };
  batch begin(parallel::message_operation const& operation) { return {*this, operation}; }

  /// Tells every rank the reason; only the first one counts.
  void abort(std::string const& reason) override {
    if (!stop(reason)) return;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_) send(peer, abort_slot, reason.data(), reason.size());
  }
  std::optional<std::string> stop_reason() {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }

 private:
  static constexpr std::uint64_t abort_slot = 1;  // below message_operation::first_slot
  using header = std::array<std::uint64_t, 2>;    // slot, bytes

  int socket(int peer) const { return sockets_[static_cast<std::size_t>(peer)]; }

  void send(int peer, std::uint64_t slot, void const* from, std::size_t bytes) {
    std::scoped_lock const lock(sending_[static_cast<std::size_t>(peer)]);
    header const head{slot, bytes};
    write(peer, head.data(), sizeof head);
    write(peer, from, bytes);
  }
  void write(int peer, void const* from, std::size_t bytes) {
    auto const* next = static_cast<char const*>(from);
    while (bytes > 0) {
      auto const written = ::send(socket(peer), next, bytes, MSG_NOSIGNAL);
      if (written <= 0) return;  // the rank is gone: who waits for it learns that
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }
  bool read(int peer, void* to, std::size_t bytes) {
    return bytes == 0 ||
           ::recv(socket(peer), to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }

  void read_all(int peer) {
    for (header head; read(peer, head.data(), sizeof head);) {
      auto const [slot, bytes] = head;
      std::vector<char> message(bytes);
      if (!read(peer, message.data(), bytes)) break;
      if (slot == abort_slot) {
        stop(std::string(message.begin(), message.end()));
      } else {
        std::scoped_lock const lock(mutex_);
        boxes_[{peer, slot}].push_back(std::move(message));
        changed_.notify_all();
      }
    }
  }

  void receive(parallel::message_operation const& operation, int peer, void* to,
               std::size_t bytes) {
    std::unique_lock lock(mutex_);
    auto const box = std::pair(peer, operation.slot);
    bool const is_there = changed_.wait_for(
        lock, deadline_, [&] { return reason_ || boxes_.find(box) != boxes_.end(); });
    if (reason_) throw parallel::aborted(*reason_);
    if (!is_there) {
      lock.unlock();
      std::vector const missing{peer};
      abort(parallel::overdue_message(operation.call, rank_,
                                      std::chrono::duration<double>(deadline_).count(), missing));
      throw parallel::timed_out(*stop_reason());
    }
    auto& messages = boxes_[box];
    parallel::require(messages.front().size() == bytes, "rank ", peer, " sent ",
                      messages.front().size(), " bytes, where rank ", rank_, " expects ", bytes,
                      " for its ", parallel::describe(operation.call));
    std::copy_n(messages.front().begin(), bytes, static_cast<char*>(to));
    messages.pop_front();
    if (messages.empty()) boxes_.erase(box);
  }

  bool stop(std::string const& reason) {
    std::scoped_lock const lock(mutex_);
    if (reason_) return false;
    reason_ = reason;
    changed_.notify_all();
    return true;
  }

  int rank_;
  std::vector<int> sockets_;
  std::vector<std::mutex> sending_;  // one for each socket
  std::chrono::milliseconds deadline_;
  std::mutex mutex_;  // guards the next members
  std::condition_variable changed_;
  std::map<std::pair<int, std::uint64_t>, std::deque<std::vector<char>>> boxes_;
  std::optional<std::string> reason_;
  std::vector<std::thread> readers_;
};

using socket_communicator = parallel::message_communicator<socket_network>;
// [guide: end]

/// The sockets of all pairs: `sockets[a][b]` is connected to `sockets[b][a]`.
std::vector<std::vector<int>> connect_pairs(int ranks) {
  auto const count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<int>> out(count, std::vector<int>(count, -1));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      int ends[2];
      parallel::require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets are left");
      out[a][b] = ends[0];
      out[b][a] = ends[1];
    }
  return out;
}

/// Whether `rank_main(communicator)` returns true in each of `ranks` processes.
template <class RankMain>
bool run_processes(int ranks, std::chrono::milliseconds deadline, RankMain const& rank_main) {
  auto const sockets = connect_pairs(ranks);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    for (int other = 0; other < ranks; ++other)  // keeps only this rank's ends open
      for (int const end : sockets[static_cast<std::size_t>(other)])
        if (other != rank && end >= 0) ::close(end);
    bool is_good = false;
    try {
      auto const network =
          std::make_shared<socket_network>(rank, sockets[static_cast<std::size_t>(rank)], deadline);
      is_good = rank_main(socket_communicator(network));
    } catch (std::exception const& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    }
    std::_Exit(is_good ? 0 : 1);
  }
  for (auto const& of_rank : sockets)
    for (int const end : of_rank)
      if (end >= 0) ::close(end);
  bool all_good = true;
  for (pid_t const process : processes) {
    int status = 1;
    all_good = ::waitpid(process, &status, 0) == process && status == 0 && all_good;
  }
  return all_good;
}

}  // namespace

int main() {
  using std::chrono::milliseconds;
  bool is_good = true;
  for (int const ranks : {1, 2, 3, 5})
    is_good = run_processes(ranks, milliseconds(20000),
                            [](socket_communicator comm) {
                              // [guide: check_all]
                              parallel::conformance::check_all(comm);  // throws at a wrong bit
                              // [guide: end]
                              return true;
                            }) &&
              is_good;
  using parallel::conformance::waiting;
  for (auto const kind : parallel::conformance::all_waits) {
    is_good = run_processes(3, milliseconds(20000),
                            [kind](socket_communicator comm) {
                              // [guide: check_failures]
                              parallel::conformance::check_abort(std::move(comm), kind);
                              // [guide: end]
                              return true;
                            }) &&
              is_good;
    is_good = run_processes(3, milliseconds(300),
                            [kind](socket_communicator comm) {
                              parallel::conformance::check_deadline(std::move(comm), kind, "0.3");
                              return true;
                            }) &&
              is_good;
  }
  std::puts(is_good ? "the communicator over sockets obeys all laws" : "a law is broken");
  return is_good ? 0 : 1;
}
