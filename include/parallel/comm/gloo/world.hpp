// gloo::detail::world: the connections of a rank to all others, shared by its communicators.
//
// gloo carries messages over TCP; what it lacks is here. A thread hears the others' notices: that
// one has failed, and why, or has ended its communicators. A connection that is closed without a
// notice is a rank that is gone. Every connection begins with a sealed greeting (connecting.hpp),
// so that nobody takes part who lacks the run's key; what follows is neither sealed nor encrypted.
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
#include <string_view>
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
#include <parallel/core/shared_deadline.hpp>

namespace parallel::gloo {

struct communicator_options {
  int rank = 0;
  int ranks = 1;
  /// A folder that all ranks see, there already, and nobody else's: of this run, this try of it and
  /// this communicator alone.
  std::filesystem::path rendezvous = {};
  /// The network interface to listen on ("eth0").
  std::string interface = "lo";
  /// Seals records of the rendezvous, equal on all ranks; see rendezvous.hpp.
  sealer seal = {};
  /// How long a rank waits for the others: at the rendezvous, and in one operation.
  shared_deadline deadline = std::chrono::seconds(600);
  /// How long a rank that gives up its operations may take to say why.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Collectives travel in pieces of this size, many at a time; staging memory is 8 times that for
  /// each rank.
  std::size_t piece_bytes = std::size_t{256} << 10;
};

namespace detail {

class world final : public parallel::detail::abortable {
 public:
  using buffer = ::gloo::transport::UnboundBuffer;

  /// Blocks until all ranks are connected. SIGPIPE is ignored from now on, unless somebody handles
  /// it: gloo writes to connections that may be closed.
  explicit world(communicator_options options) : options_(std::move(options)) {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    require(options_.rank >= 0 && options_.rank < options_.ranks && options_.piece_bytes >= 1,
            "gloo::communicator: rank ", options_.rank, " of ", options_.ranks, " in pieces of ",
            options_.piece_bytes, " bytes cannot be");
    if (struct ::sigaction now{};
        ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    left_.resize(ranks);
    signs_of_life_.resize(ranks);
    if (ranks == 1) return;
    try {
      connect();
    } catch (error const&) {
      throw;
    } catch (std::exception const& problem) {
      fail("rank ", options_.rank, " cannot connect to the others over the interface ",
           options_.interface, ": ", problem.what(),
           "; choose one that all machines reach each other by");
    }
    listener_ = std::thread([this] { listen(); });
  }
  world(world const&) = delete;
  world& operator=(world const&) = delete;

  /// Tells the others that this rank makes no more calls.
  ~world() override {
    auto const why = stopped();  // the listener may hear of a failure even now
    if (why) abort(*why);        // for a rank that has given up: nobody has said why
    if (context_ != nullptr) {
      if (!why) tell_all(farewell, {});
      auto const limit = steady_time::clock::now() + telling;
      for (auto const& one : notices_)
        while (!left_since(one.peer) && steady_time::clock::now() < limit)
          if (arrived(*one.message, direction::sent, one.peer, limit)) break;
    }
    ends_ = true;
    alarms_.ring_all();
    if (listener_.joinable()) listener_.join();
  }

  [[nodiscard]] communicator_options const& options() const { return options_; }

  [[nodiscard]] std::unique_ptr<buffer> make_buffer(void* memory, std::size_t bytes) {
    return context_->createUnboundBuffer(memory, bytes);
  }

  /// Whether the message is through before `until`; may return early without. Never so when the
  /// connection to `peer` is closed.
  [[nodiscard]] bool arrived(buffer& message, direction what, int peer, steady_time until) {
    try {
      return alarms_.wait(message, what, until);
    } catch (std::exception const&) {
      note_left(peer);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return false;
    }
  }

  /// Tells all ranks. Any thread may call it.
  void abort(std::string const& reason) override {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_) return;
      reason_ = reason;
    }
    tell_all(failure, reason);
    alarms_.ring_all();
  }

  /// Ends what this rank waits for. The others hear of it at once, since a message that is taken
  /// back blocks its connection as soon as the other end comes to it; why, an abort tells, or
  /// nobody does within the grace.
  void give_up(int /*rank*/, std::string const& reason) override {
    {
      std::scoped_lock const lock(mutex_);
      if (reason_ || given_up_) return;
      given_up_ = reason;
    }
    tell_all(surrender, reason);
    alarms_.ring_all();
  }

  /// Why this rank is not to wait any more.
  [[nodiscard]] std::optional<std::string> stopped() {
    std::scoped_lock const lock(mutex_);
    if (!reason_ && abandonment_ && steady_time::clock::now() >= abandonment_->until)
      reason_ = abandonment_->reason;
    return reason_ ? reason_ : given_up_;
  }

  /// Whether `peer` has said that it gives up its operations: it takes part in none any more.
  [[nodiscard]] bool has_given_up(int peer) {
    std::scoped_lock const lock(mutex_);
    return abandonment_ && abandonment_->rank == peer;
  }

  struct departure {
    steady_time since;
    bool said = false;  // else its connection was closed
  };
  /// That of a rank which is known to make no more calls.
  [[nodiscard]] std::optional<departure> left_since(int peer) {
    std::unique_lock lock(mutex_);
    auto const& known = left_[static_cast<std::size_t>(peer)];
    auto const& sign = signs_of_life_[static_cast<std::size_t>(peer)];
    if (known || sign == nullptr) return known;
    try {  // a wait that is ended before it begins: it throws when the connection is closed
      sign->abortWaitRecv();
      static_cast<void>(sign->waitRecv(nullptr, std::chrono::milliseconds(1000)));
      return std::nullopt;
    } catch (std::exception const&) {
      lock.unlock();
      note_left(peer);
      return left_since(peer);
    }
  }

  void note_left(int peer, bool said = false) {
    std::scoped_lock const lock(mutex_);
    auto& known = left_[static_cast<std::size_t>(peer)];
    if (!known) known = departure{steady_time::clock::now(), said};
  }

  /// Slots below this are the world's own.
  static constexpr std::uint64_t first_free_slot = 16;

 private:
  static constexpr std::uint64_t notice_slot = 1, life_slot = 2, greeting_slot = 3;
  static constexpr char failure = 'f', surrender = 'g', farewell = 'b';

  // What ranks tell each other out of turn.
  struct notice_text {
    std::int32_t from = 0;
    char kind = 0;
    std::array<char, 2043> text = {};
  };
  // One that is sent.
  struct notice {
    int peer;
    std::shared_ptr<notice_text> content;
    std::unique_ptr<buffer> message;
  };
  // The first rank that gives up its operations.
  struct abandonment {
    std::string reason;
    int rank;
    steady_time until;  // when it becomes the reason to stop
  };

  void connect() {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    auto const me = static_cast<std::size_t>(options_.rank);
    auto listener = listen_on(options_.interface);
    std::vector<std::string> const mine(
        ranks, endpoint::of_socket(listener.get()).bytes() + rendezvous::drawn());
    rendezvous const meeting(options_.rendezvous, options_.rank, options_.seal);
    meeting.leave(mine);
    std::vector<known_rank> others(ranks);
    others[me].where = endpoint(mine[me]);
    patience limit(options_.deadline.get());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const name = static_cast<int>(peer);
      if (peer != me) {
        auto const theirs = meeting.take(name, mine[peer].size(), limit);
        others[peer] = {endpoint(theirs), meeting.greeting(options_.rank, name, mine[peer], theirs),
                        meeting.greeting(name, options_.rank, theirs, mine[peer])};
        others[me].shown = others[peer].shown;  // for its length
      }
    }
    auto const connections =
        connecting(options_.rank, std::move(listener), std::move(others), options_.interface)
            .wait(options_.deadline.get());
    auto const device = device_of_this_process();
    context_ = device->createContext(options_.rank, options_.ranks);
    context_->setTimeout(::gloo::kNoTimeout);
    hand_over(*context_, *device, connections);
    greet();
  }

  // Ranks say that they are connected to all: so whoever is not fails first, and names the right
  // one.
  void greet() {
    auto const ranks = static_cast<std::size_t>(options_.ranks);
    std::vector<std::unique_ptr<buffer>> out(ranks), in(ranks);
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const to = static_cast<int>(peer);
      if (to == options_.rank) continue;
      for (auto* const message : {&signs_of_life_[peer], &out[peer], &in[peer]})
        *message = make_buffer(nullptr, 0);
      try {
        signs_of_life_[peer]->recv(to, life_slot, 0, 0);
        in[peer]->recv(to, greeting_slot, 0, 0);
        out[peer]->send(to, greeting_slot, 0, 0);
      } catch (std::exception const&) {
        note_left(to);
      }
    }
    // who waits to connect to another says nothing yet
    auto const deadline = options_.deadline.get();
    patience limit(deadline + std::min<std::chrono::milliseconds>(deadline, in_front));
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      int const from = static_cast<int>(peer);
      if (from == options_.rank) continue;
      for (auto const what : {direction::received, direction::sent})
        while (!arrived(*(what == direction::sent ? out : in)[peer], what, from, limit.next())) {
          if (left_since(from))
            throw aborted(concat("rank ", from, " closed its connection to rank ", options_.rank,
                                 " before it had greeted: it has failed, and says why, or is of "
                                 "another run"));
          if (limit.over())
            throw timed_out(concat("rank ", from, " is connected to rank ", options_.rank,
                                   " and has not greeted within ", options_.deadline.seconds(),
                                   " s: it may itself be waiting to connect to another rank, or "
                                   "stands still"));
        }
    }
  }

  void tell_all(char kind, std::string const& text) {
    std::scoped_lock const lock(telling_);
    auto const content = std::make_shared<notice_text>();
    content->from = options_.rank;
    content->kind = kind;
    text.copy(content->text.data(), content->text.size() - 1);
    for (int peer = 0; peer < options_.ranks; ++peer) {
      if (peer == options_.rank || left_since(peer)) continue;
      auto message = make_buffer(content.get(), sizeof *content);
      try {
        message->send(peer, notice_slot);
        notices_.push_back({peer, content, std::move(message)});
      } catch (std::exception const&) {
        note_left(peer);
      }
    }
  }

  void listen() {
    notice_text heard;
    while (!ends_) {
      auto const incoming = make_buffer(&heard, sizeof heard);
      std::vector<int> others;
      for (int peer = 0; peer < options_.ranks; ++peer)
        if (peer != options_.rank && !left_since(peer)) others.push_back(peer);
      if (others.empty()) return;
      try {
        incoming->recv(others, notice_slot);
        while (!alarms_.wait(*incoming, direction::received,
                             steady_time::clock::now() + std::chrono::seconds(1)))
          if (ends_) return;
      } catch (std::exception const&) {  // somebody left while we listened to him
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      heard.text.back() = '\0';
      if (heard.kind == farewell) {
        note_left(heard.from, true);
      } else {
        std::scoped_lock const lock(mutex_);
        if (heard.kind == failure && !reason_) reason_ = heard.text.data();
        if (heard.kind == surrender && !abandonment_)
          abandonment_ = {heard.text.data(), heard.from,
                          steady_time::clock::now() + options_.grace};
      }
      alarms_.ring_all();
    }
  }

  // How long a rank stays for the others to take its last notice; programs in which one has only
  // heard of a failure stay longer (apps/support/launch_gloo.cpp).
  static constexpr std::chrono::seconds telling{2};
  // How much earlier those fail who cannot connect than those whom they do not greet.
  static constexpr std::chrono::milliseconds in_front = std::chrono::seconds(10);

  communicator_options options_;
  std::shared_ptr<::gloo::transport::Context> context_;  // none: this rank is alone
  alarm_clock alarms_;
  std::mutex mutex_;  // of what follows
  std::optional<std::string> reason_;
  std::optional<std::string> given_up_;
  std::optional<abandonment> abandonment_;  // of another rank
  std::vector<std::optional<departure>> left_;
  std::vector<std::unique_ptr<buffer>> signs_of_life_;  // what no rank ever sends
  std::mutex telling_;                                  // of what follows
  std::vector<notice> notices_;
  std::atomic<bool> ends_ = false;
  std::thread listener_;
};

}  // namespace detail
}  // namespace parallel::gloo
