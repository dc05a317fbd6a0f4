// gloo::detail::world: the connections of a rank to all others, shared by its communicators.
//
// gloo carries messages over TCP; this class adds what it lacks. A thread receives the notices of
// the other ranks: that a rank has failed, with the reason, or has ended its communicators. If a
// connection is closed without a notice, its rank is gone. Every connection begins with a sealed
// greeting (connecting.hpp), so that no process without the run's key takes part; later messages
// are neither sealed nor encrypted.
#pragma once

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/gloo/alarm_clock.hpp>
#include <parallel/comm/gloo/connecting.hpp>
#include <parallel/comm/gloo/endpoint.hpp>
#include <parallel/comm/gloo/handed_connections.hpp>
#include <parallel/comm/gloo/rendezvous.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo {

/// The place of a rank in its group, and how the ranks find and await each other.
struct communicator_options {
  int rank = 0;
  int ranks = 1;
  /// An existing folder that all ranks see and no other user: for this run, this try to start it
  /// and this communicator alone.
  std::filesystem::path rendezvous = {};
  /// The network interface to listen on ("eth0").
  std::string interface = "lo";
  /// Seals the records of the rendezvous, equal on all ranks; see rendezvous.hpp.
  sealer seal = {};
  /// The time that a rank waits for the others at the rendezvous, and in one operation.
  shared_deadline deadline = std::chrono::seconds(600);
  /// The time within which a rank that gives up its operations must tell the others the reason.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Collectives send pieces of this size, many at a time; staging memory is 8 times that for each
  /// rank.
  std::size_t piece_bytes = std::size_t{256} << 10;
};

namespace detail {

class world : public parallel::abortable {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;

  /// Blocks until all ranks are connected. SIGPIPE is ignored from then on, unless the program
  /// handles it, since gloo writes to connections that may be closed.
  explicit world(communicator_options options) : options_(std::move(options)) {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    require(options_.rank >= 0 && options_.rank < options_.ranks && options_.piece_bytes >= 1,
            "gloo::communicator: rank ", options_.rank, " must be from 0 to below ranks ",
            options_.ranks, ", and piece_bytes ", options_.piece_bytes, " at least 1");
    if (struct ::sigaction action{};
        ::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
      static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    departures_.resize(ranks);
    signs_of_life_.resize(ranks);
    if (ranks == 1) return;
    try {
      connect();
    } catch (error const&) {
      throw;
    } catch (std::exception const& problem) {
      fail("rank ", options_.rank, " cannot connect to the others over the interface ",
           options_.interface, ": ", problem.what(),
           "; choose an interface over which all machines reach each other");
    }
    listener_ = std::thread([this] { listen(); });
  }
  world(world&&) = delete;

  /// Tells the other ranks that this rank makes no more calls.
  ~world() override {
    auto const reason = stop_reason();  // the listener may receive a failure even now
    if (reason) abort(*reason);         // covers a rank that has given up without a better reason
    if (context_ != nullptr) {
      if (!reason) tell_all(farewell, {});
      auto const limit = steady_time::clock::now() + farewell_time;
      for (auto const& sent_notice : notices_)
        while (!left_since(sent_notice.peer) && steady_time::clock::now() < limit)
          if (is_complete(*sent_notice.message, direction::sent, sent_notice.peer, limit)) break;
    }
    is_stopping_ = true;
    alarms_.ring_all();
    if (listener_.joinable()) listener_.join();
  }

  [[nodiscard]] communicator_options const& options() const { return options_; }

  [[nodiscard]] std::unique_ptr<buffer> make_buffer(void* memory, std::size_t bytes) {
    return context_->createUnboundBuffer(memory, bytes);
  }

  /// Whether the message is complete before `deadline`; may return false earlier. False when the
  /// connection to `peer` is closed.
  [[nodiscard]] bool is_complete(buffer& message, direction side, int peer, steady_time deadline) {
    try {
      return alarms_.wait(message, side, deadline);
    } catch (std::exception const&) {
      record_left(peer);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return false;
    }
  }

  /// Sends the reason to all ranks. Any thread may call it.
  void abort(std::string const& reason) override {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_) return;
      reason_ = reason;
    }
    tell_all(failure, reason);
    alarms_.ring_all();
  }

  /// Ends the waits of this rank. The other ranks learn that immediately, since a message that is
  /// withdrawn blocks its connection as soon as the other end reaches it; they learn the reason by
  /// an abort, or from `reason` when the grace is over.
  void give_up(int /*rank*/, std::string const& reason) override {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_ || give_up_reason_) return;
      give_up_reason_ = reason;
    }
    tell_all(surrender, reason);
    alarms_.ring_all();
  }

  /// The reason why this rank must stop waiting, if there is one.
  [[nodiscard]] std::optional<std::string> stop_reason() {
    std::scoped_lock const lock(mutex_);
    if (!reason_ && abandonment_ && steady_time::clock::now() >= abandonment_->deadline)
      reason_ = abandonment_->reason;
    return reason_ ? reason_ : give_up_reason_;
  }

  /// Whether `peer` has announced that it gives up its operations, so that it takes part in none.
  [[nodiscard]] bool has_given_up(int peer) {
    std::scoped_lock const lock(mutex_);
    return abandonment_ && abandonment_->rank == peer;
  }

  struct departure {
    steady_time time;
    bool is_announced = false;  // false: its connection was closed
  };
  /// The departure of a rank that is known to make no more calls.
  [[nodiscard]] std::optional<departure> left_since(int peer) {
    std::unique_lock lock(mutex_);
    auto const& departure_entry = departures_[static_cast<std::size_t>(peer)];
    auto const& sign = signs_of_life_[static_cast<std::size_t>(peer)];
    if (departure_entry || sign == nullptr) return departure_entry;
    try {  // a wait that ends immediately: it throws if the connection is closed
      sign->abortWaitRecv();
      static_cast<void>(sign->waitRecv(nullptr, std::chrono::milliseconds(1000)));
      return std::nullopt;
    } catch (std::exception const&) {
      lock.unlock();
      record_left(peer);
      return left_since(peer);
    }
  }

  void record_left(int peer, bool is_announced = false) {
    std::scoped_lock const lock(mutex_);
    auto& departure_entry = departures_[static_cast<std::size_t>(peer)];
    if (!departure_entry) departure_entry = departure{steady_time::clock::now(), is_announced};
  }

 private:
  static constexpr std::uint64_t notice_slot = 1, life_slot = 2, greeting_slot = 3;
  static constexpr char failure = 'f', surrender = 'g', farewell = 'b';

  // A notice that ranks send to each other at any time.
  struct notice_text {
    std::int32_t sender = 0;
    char kind = 0;
    std::array<char, 2043> text = {};
  };
  // A notice that is being sent.
  struct notice {
    int peer;
    std::shared_ptr<notice_text> content;
    std::unique_ptr<buffer> message;
  };
  // The first rank that gives up its operations.
  struct abandonment {
    std::string reason;
    int rank;
    steady_time deadline;  // when its reason becomes that of an abort
  };

  void connect() {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    auto const own_rank = static_cast<std::size_t>(options_.rank);
    auto listener = listen_on(options_.interface);
    std::vector<std::string> const own_records(
        ranks, endpoint::of_socket(listener.get()).bytes() + rendezvous::random_record());
    rendezvous const meeting(options_.rendezvous, options_.rank, options_.seal);
    meeting.write_records(own_records);
    std::vector<known_rank> ranks_info(ranks);
    ranks_info[own_rank].address = endpoint(own_records[own_rank]);
    patience limit(options_.deadline.get());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const world_rank = static_cast<int>(peer);
      if (peer != own_rank) {
        auto const peer_record = meeting.read_record(world_rank, own_records[peer].size(), limit);
        ranks_info[peer] = {
            endpoint(peer_record),
            meeting.greeting(options_.rank, world_rank, own_records[peer], peer_record),
            meeting.greeting(world_rank, options_.rank, peer_record, own_records[peer])};
        ranks_info[own_rank].shown = ranks_info[peer].shown;  // only its length is used
      }
    }
    auto const connections = mutual_connections(options_.rank, std::move(listener),
                                                std::move(ranks_info), options_.interface)
                                 .wait(options_.deadline.get());
    auto const device = device_of_this_process();
    context_ = device->createContext(options_.rank, options_.ranks);
    context_->setTimeout(::gloo::kNoTimeout);
    hand_over(*context_, *device, connections);
    greet();
  }

  // Each rank announces that it is connected to all, so that a rank which is not fails first, and
  // names the right peer.
  void greet() {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    std::vector<std::unique_ptr<buffer>> out(ranks), in(ranks);
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const peer_rank = static_cast<int>(peer);
      if (peer_rank == options_.rank) continue;
      for (auto* const message : {&signs_of_life_[peer], &out[peer], &in[peer]})
        *message = make_buffer(nullptr, 0);
      try {
        signs_of_life_[peer]->recv(peer_rank, life_slot, 0, 0);
        in[peer]->recv(peer_rank, greeting_slot, 0, 0);
        out[peer]->send(peer_rank, greeting_slot, 0, 0);
      } catch (std::exception const&) {
        record_left(peer_rank);
      }
    }
    // A rank that still waits to connect to another one does not greet yet.
    auto const deadline = options_.deadline.get();
    patience limit(deadline + std::min<std::chrono::milliseconds>(deadline, connection_lead_time));
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const peer_rank = static_cast<int>(peer);
      if (peer_rank == options_.rank) continue;
      for (auto const side : {direction::received, direction::sent})
        while (!is_complete(*(side == direction::sent ? out : in)[peer], side, peer_rank,
                            limit.next_check())) {
          if (left_since(peer_rank))
            throw aborted(concat("rank ", peer_rank, " closed its connection to rank ",
                                 options_.rank,
                                 " before it had greeted: it has failed, and says why, or is of "
                                 "another run"));
          if (limit.is_over())
            throw timed_out(concat("rank ", peer_rank, " is connected to rank ", options_.rank,
                                   " and has not greeted within ", options_.deadline.seconds(),
                                   " s: it may itself be waiting to connect to another rank, or "
                                   "is stalled"));
        }
    }
  }

  void tell_all(char kind, std::string const& text) {
    std::scoped_lock const lock(notices_mutex_);
    auto const content = std::make_shared<notice_text>();
    content->sender = options_.rank;
    content->kind = kind;
    text.copy(content->text.data(), content->text.size() - 1);
    for (int peer = 0; peer < options_.ranks; ++peer) {
      if (peer == options_.rank || left_since(peer)) continue;
      auto message = make_buffer(content.get(), sizeof *content);
      try {
        message->send(peer, notice_slot);
        notices_.push_back({peer, content, std::move(message)});
      } catch (std::exception const&) {
        record_left(peer);
      }
    }
  }

  void listen() {
    notice_text received;
    while (!is_stopping_) {
      auto const incoming = make_buffer(&received, sizeof received);
      std::vector<int> peers;
      for (int peer = 0; peer < options_.ranks; ++peer)
        if (peer != options_.rank && !left_since(peer)) peers.push_back(peer);
      if (peers.empty()) return;
      try {
        incoming->recv(peers, notice_slot);
        while (!alarms_.wait(*incoming, direction::received,
                             steady_time::clock::now() + std::chrono::seconds(1)))
          if (is_stopping_) return;
      } catch (std::exception const&) {  // a rank's connection was closed during the wait
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      received.text.back() = '\0';
      if (received.kind == farewell) {
        record_left(received.sender, true);
      } else {
        std::scoped_lock const lock(mutex_);
        if (received.kind == failure && !reason_) reason_ = received.text.data();
        if (received.kind == surrender && !abandonment_)
          abandonment_ = {received.text.data(), received.sender,
                          steady_time::clock::now() + options_.grace};
      }
      alarms_.ring_all();
    }
  }

  // The time that a rank waits for the others to receive its last notice. A program waits longer in
  // a rank that has only received another rank's failure (src/launch/launch_gloo.cpp).
  static constexpr std::chrono::seconds farewell_time{2};
  // A rank that cannot connect fails this much earlier than the ranks that wait for its connection.
  static constexpr std::chrono::milliseconds connection_lead_time = std::chrono::seconds(10);

  communicator_options options_;
  std::shared_ptr<::gloo::transport::Context> context_;  // null: there is only one rank
  alarm_clock alarms_;
  std::mutex mutex_;  // guards the next members
  std::optional<std::string> reason_;
  std::optional<std::string> give_up_reason_;
  std::optional<abandonment> abandonment_;  // that another rank has announced
  std::vector<std::optional<departure>> departures_;
  std::vector<std::unique_ptr<buffer>> signs_of_life_;  // receives that never complete
  std::mutex notices_mutex_;                            // guards notices_
  std::vector<notice> notices_;
  std::atomic<bool> is_stopping_ = false;
  std::thread listener_;
};

}  // namespace detail
}  // namespace parallel::gloo
