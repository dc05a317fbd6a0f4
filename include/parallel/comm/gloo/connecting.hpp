// gloo::detail::mutual_connections: connects a rank to all other ranks, within one deadline.
//
// A rank listens at one port while it connects. Any process may connect there: a port scanner,
// another user of the machine. Therefore both ends of a connection first show that they belong to
// this run; a connection that does not is dropped, and ranks that come later are accepted as
// before. The number of connections that have not shown anything yet is limited, and so is their
// time; the oldest is dropped for a new one.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/gloo/endpoint.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo::detail {

/// The data about another rank that are known before it is connected.
struct known_rank {
  endpoint address;
  std::string shown;     // what this rank sends to that rank
  std::string expected;  // what that rank must send; of the same length
};

class mutual_connections {
 public:
  /// `ranks` is indexed by rank; this rank's own entry has the address of `listener`, which does
  /// not block.
  mutual_connections(int rank, descriptor listener, std::vector<known_rank> ranks,
                     std::string_view interface)
      : rank_(rank),
        listener_(std::move(listener)),
        ranks_(std::move(ranks)),
        interface_(interface),
        links_(ranks_.size()) {}

  /// Blocks until all are connected, and returns the connections by rank. Throws `timed_out` for a
  /// connection that fails or is not made before the deadline, since a network may recover. A plain
  /// `error` means that another try would not help.
  [[nodiscard]] std::vector<descriptor> wait(std::chrono::milliseconds deadline) {
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer)
      if (static_cast<int>(peer) != rank_) require_usable(static_cast<int>(peer));
    patience limit(deadline);
    while (!unconnected().empty()) {
      if (limit.is_over()) throw timed_out(overdue(deadline));
      start_due_calls();
      wait_for_events(limit.next_check());
    }
    std::vector<descriptor> out;
    for (auto& connection : links_) out.push_back(std::move(connection.socket));
    return out;
  }

  /// The first bytes that a rank sends on a connection.
  [[nodiscard]] static std::string hello(int rank, std::string const& shown) {
    auto const number = static_cast<std::int32_t>(rank);
    std::string out(sizeof number, '\0');
    std::memcpy(out.data(), &number, sizeof number);
    return out + shown;
  }

  /// Limits for connections that have not shown anything yet: their number, in addition to the
  /// ranks' own connections, and the time of each.
  static constexpr std::size_t max_visitors = 64;
  static constexpr auto visit_time = std::chrono::seconds(10);

 private:
  using clock = std::chrono::steady_clock;

  // The connection to another rank. Of two ranks the one with the higher address connects.
  struct link {
    enum class state { absent, calling, asking, connected };
    state status = state::absent;
    descriptor socket = descriptor();
    std::string received = {};
    steady_time due = {};      // absent: when to call; calling: when to call again
    bool was_reached = false;  // a call was accepted
    bool was_wrong = false;    // but the other end is not that rank
  };
  // A connection whose rank is not known yet.
  struct visitor {
    descriptor socket;
    endpoint address;
    std::string received;
    steady_time deadline;
  };
  enum class reading { unfinished, finished, closed };

  static constexpr auto one_call = std::chrono::seconds(10);
  static constexpr auto between_calls = std::chrono::milliseconds(100);

  [[nodiscard]] known_rank const& rank_info(int peer) const {
    return ranks_[static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] link& link_to(int peer) { return links_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] bool is_caller_of(int peer) const {
    return rank_info(peer).address < rank_info(rank_).address;
  }
  [[nodiscard]] std::string address_text(int peer) const { return rank_info(peer).address.text(); }

  [[nodiscard]] std::vector<int> unconnected() const {
    std::vector<int> out;
    for (std::size_t peer = 0; peer < links_.size(); ++peer)
      if (static_cast<int>(peer) != rank_ && links_[peer].status != link::state::connected)
        out.push_back(static_cast<int>(peer));
    return out;
  }

  void require_usable(int peer) const {
    auto const& own_address = rank_info(rank_).address;
    auto const& address = rank_info(peer).address;
    require(own_address.family() == address.family(), "rank ", rank_, " listens at ",
            own_address.text(), " and rank ", peer, " at ", address.text(),
            ": one by IPv4 and the other by IPv6; give the interfaces of all machines addresses "
            "of one kind, or choose others");
    require(own_address < address || address < own_address, "ranks ", rank_, " and ", peer,
            " both listen at ", own_address.text(),
            ": their machines have the same address; give each machine its own");
  }

  void start_due_calls() {
    auto const time = clock::now();
    for (int const peer : unconnected()) {
      auto& connection = link_to(peer);
      if (!is_caller_of(peer) || connection.status == link::state::asking || time < connection.due)
        continue;
      auto const& address = rank_info(peer).address;
      connection.socket =
          descriptor(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      require(connection.socket.get() >= 0, "rank ", rank_, " has no socket to connect to rank ",
              peer, ": ", std::generic_category().message(errno));
      connection.status = link::state::calling;
      connection.due = time + one_call;
      if (::connect(connection.socket.get(), address.get(), address.length()) != 0 &&
          errno != EINPROGRESS)
        note_refused(peer, errno);
    }
  }

  void call_again(int peer, std::chrono::milliseconds pause) {
    auto& connection = link_to(peer);
    connection.socket = descriptor();
    connection.received.clear();
    connection.status = link::state::absent;
    connection.due = clock::now() + pause;
  }

  void note_refused(int peer, int code) {
    if (code == ETIMEDOUT || code == ECONNRESET || code == EAGAIN)
      return call_again(peer, between_calls);
    if (link_to(peer).was_reached && !link_to(peer).was_wrong)
      throw aborted(concat("rank ", peer, " closed its connection to rank ", rank_,
                           " before it had greeted: it has failed, and says why, or is of another "
                           "run"));
    throw timed_out(concat(
        "rank ", rank_, " cannot connect to rank ", peer, " at ", address_text(peer), ": ",
        std::generic_category().message(code),
        code == ECONNREFUSED ? "; it listened there before: it has ended, and says why in its own "
                               "log, or a firewall refuses (docs/launch.md)"
        : code == EHOSTUNREACH || code == ENETUNREACH
            ? concat("; see whether that machine is up and the network between, and whether the "
                     "interface ",
                     interface_, " is one by which all machines reach each other")
            : std::string()));
  }

  // Waits for events, until `deadline` at most, and handles them.
  void wait_for_events(steady_time deadline) {
    std::vector<pollfd> events{{listens_ ? listener_.get() : -1, POLLIN, 0}};
    std::vector<int> called;
    for (int const peer : unconnected()) {
      auto const& connection = link_to(peer);
      if (!is_caller_of(peer)) continue;
      deadline =
          std::min(deadline, connection.status == link::state::asking ? deadline : connection.due);
      if (connection.status == link::state::absent) continue;
      called.push_back(peer);
      events.push_back(
          {connection.socket.get(),
           static_cast<short>(connection.status == link::state::calling ? POLLOUT : POLLIN), 0});
    }
    for (auto const& visitor_entry : visitors_)
      events.push_back({visitor_entry.socket.get(), POLLIN, 0});
    auto const time = clock::now();
    auto const left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - time).count();
    static_cast<void>(::poll(events.data(), events.size(),
                             static_cast<int>(std::max<std::int64_t>(left + 1, 0))));
    auto event = events.begin();
    bool const has_new_visitors = event->revents != 0;
    for (int const peer : called)
      if ((++event)->revents != 0) go_on(peer);
    for (auto next_visitor = visitors_.begin(); next_visitor != visitors_.end();) {
      auto const it = next_visitor++;
      if ((++event)->revents != 0)
        read_greeting(it);
      else if (it->deadline < time)
        drop(it);
    }
    listens_ = true;
    if (has_new_visitors) accept_visitors();
  }

  // Handles a call that was accepted or refused, or the answer to it.
  void go_on(int peer) {
    auto& connection = link_to(peer);
    if (connection.status == link::state::calling) {
      int code = 0;
      socklen_t length = sizeof code;
      static_cast<void>(
          ::getsockopt(connection.socket.get(), SOL_SOCKET, SO_ERROR, &code, &length));
      if (code != 0) return note_refused(peer, code);
      if (!send_all(connection.socket, hello(rank_, rank_info(peer).shown)))
        return call_again(peer, between_calls);
      connection.was_reached = true;
      connection.status = link::state::asking;
      return;
    }
    auto const& expected = rank_info(peer).expected;
    auto const found = read(connection.socket, connection.received, expected.size());
    if (found == reading::finished && is_same(connection.received, expected)) {
      connection.status = link::state::connected;
      connection.was_wrong = false;
    } else if (found == reading::finished) {
      connection.was_wrong = true;
      call_again(peer, std::chrono::seconds(1));
    } else if (found == reading::closed) {
      call_again(peer, between_calls);  // the rank dropped it for another connection, or has ended
    }
  }

  void accept_visitors() {
    for (std::size_t accepted = 0; accepted < max_visitors; ++accepted) {
      endpoint address;
      socklen_t length = endpoint::size;
      descriptor socket(
          ::accept4(listener_.get(), address.get(), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        bool const queue_is_empty = errno == EAGAIN || errno == EWOULDBLOCK;
        if (!queue_is_empty && !visitors_.empty())
          drop(visitors_.begin());  // for lack of descriptors or memory
        listens_ = queue_is_empty;  // otherwise wait for another event, or a moment
        return;
      }
      if (visitors_.size() >= max_visitors + links_.size()) drop(visitors_.begin());
      visitors_.push_back({std::move(socket), address, {}, clock::now() + visit_time});
      read_greeting(std::prev(visitors_.end()));  // a rank sends its greeting immediately
    }
  }

  // Reads the greeting, and accepts the rank or drops the connection.
  void read_greeting(std::list<visitor>::iterator entry) {
    std::int32_t from = 0;
    auto const length = sizeof from + rank_info(rank_).shown.size();
    auto const found = read(entry->socket, entry->received, length);
    if (found == reading::unfinished) return;
    if (found == reading::closed) return drop(entry);
    std::memcpy(&from, entry->received.data(), sizeof from);
    bool const is_rank = from >= 0 && static_cast<std::size_t>(from) < ranks_.size() &&
                         from != rank_ && !is_caller_of(from) &&
                         is_same(entry->received.substr(sizeof from), rank_info(from).expected);
    if (!is_rank || !send_all(entry->socket, rank_info(from).shown)) return drop(entry);
    // A rank that calls again has given up its earlier call.
    link_to(from).socket = std::move(entry->socket);
    link_to(from).status = link::state::connected;
    visitors_.erase(entry);
  }

  void drop(std::list<visitor>::iterator entry) {
    ++dropped_;
    last_dropped_ = entry->address.text();
    visitors_.erase(entry);
  }

  [[nodiscard]] static reading read(descriptor const& socket, std::string& text,
                                    std::size_t length) {
    while (text.size() < length) {
      std::array<char, 1024> chunk;
      auto const wanted = std::min(chunk.size(), length - text.size());
      auto const got = ::recv(socket.get(), chunk.data(), wanted, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return reading::unfinished;
      if (got <= 0) return reading::closed;
      text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return reading::finished;
  }

  // Sends a few bytes on a new connection, whose buffer takes them immediately.
  [[nodiscard]] static bool send_all(descriptor const& socket, std::string const& text) {
    return ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // Takes a time that does not depend on how many characters are equal.
  [[nodiscard]] static bool is_same(std::string_view received, std::string_view expected) {
    unsigned char differs = received.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(received.size(), expected.size()); ++i)
      differs |= static_cast<unsigned char>(received[i] ^ expected[i]);
    return differs == 0;
  }

  [[nodiscard]] std::string overdue(std::chrono::milliseconds deadline) const {
    auto const strangers =
        dropped_ == 0
            ? std::string()
            : concat("; meanwhile ", dropped_,
                     " connections of others than this run's ranks were dropped, the last "
                     "from ",
                     last_dropped_);
    auto const seconds = static_cast<double>(deadline.count()) / 1000.0;
    auto missing = unconnected();
    auto unreached = missing;
    std::erase_if(unreached,
                  [this](int peer) { return links_[static_cast<std::size_t>(peer)].was_reached; });
    if (unreached.empty()) {
      auto const& first = links_[static_cast<std::size_t>(missing[0])];
      return concat(
          "rank ", rank_, " has reached ", name_ranks(missing), ", at ", address_text(missing[0]),
          first.was_wrong ? ", and found somebody who does not have this run's key"
                          : concat(", and has no answer within ", seconds,
                                   " s: it may itself be waiting for another rank, or be stalled"),
          strangers);
    }
    return concat(
        "rank ", rank_, " waited ", seconds, " s to connect to ", name_ranks(unreached),
        unreached.size() == 1 ? ", at " + address_text(unreached[0]) : "",
        "; see whether that machine and rank still run, whether machines reach each other by the "
        "interface ",
        interface_, ", and whether a firewall lets connections of ranks in (docs/launch.md)",
        strangers);
  }

  int rank_;
  descriptor listener_;
  std::vector<known_rank> ranks_;
  std::string interface_;
  std::vector<link> links_;
  std::list<visitor> visitors_;  // the oldest first
  bool listens_ = true;          // false: there are no resources for another connection
  std::size_t dropped_ = 0;
  std::string last_dropped_;
};

}  // namespace parallel::gloo::detail
