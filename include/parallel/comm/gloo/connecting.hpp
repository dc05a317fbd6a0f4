// gloo::detail::connecting: connects a rank to all others, within one deadline.
//
// A rank listens at one port while it connects. Anybody may connect there: a port scanner, another
// user of the machine. So both ends of a connection show first that they are of this run; who does
// not is dropped, and those ranks that come later are let in as before. Of connections that have
// shown nothing yet so many are kept at once, and each for so long; the oldest makes room.
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

/// What is known of another rank before it is connected.
struct known_rank {
  endpoint where;
  std::string shown;     // what this rank shows that one
  std::string expected;  // and what it is to be shown; of the same length
};

class connecting {
 public:
  /// `others`: by rank; this rank's own entry says where `listener`, which does not block, listens.
  connecting(int rank, descriptor listener, std::vector<known_rank> others,
             std::string_view interface)
      : rank_(rank),
        listener_(std::move(listener)),
        others_(std::move(others)),
        interface_(interface),
        links_(others_.size()) {}

  /// Blocks until all are connected, and gives the connections, by rank. Throws `timed_out` for one
  /// that fails or does not come before the deadline: a network that is away may come back. A plain
  /// `error` says what another try would not change.
  [[nodiscard]] std::vector<descriptor> wait(std::chrono::milliseconds deadline) {
    for (std::size_t peer = 0; peer < others_.size(); ++peer)
      if (static_cast<int>(peer) != rank_) require_usable(static_cast<int>(peer));
    patience limit(deadline);
    while (!late().empty()) {
      if (limit.over()) throw timed_out(overdue(deadline));
      call_those_due();
      look(limit.next());
    }
    std::vector<descriptor> out;
    for (auto& one : links_) out.push_back(std::move(one.socket));
    return out;
  }

  /// What a rank that connects sends first.
  [[nodiscard]] static std::string hello(int rank, std::string const& shown) {
    auto const number = static_cast<std::int32_t>(rank);
    std::string out(sizeof number, '\0');
    std::memcpy(out.data(), &number, sizeof number);
    return out + shown;
  }

  /// Connections that have shown nothing yet: so many at once beside the ranks' own, each so long.
  static constexpr std::size_t most_visitors = 64;
  static constexpr auto visit = std::chrono::seconds(10);

 private:
  using clock = std::chrono::steady_clock;

  // To another rank. Of two the one with the higher address calls.
  struct link {
    enum class state { absent, calling, asking, there };
    state now = state::absent;
    descriptor socket = descriptor();
    std::string heard = {};
    steady_time due = {};      // absent: when to call; calling: when to call anew
    bool was_reached = false;  // somebody has taken a call
    bool was_wrong = false;    // and did not show that it is that rank
  };
  // Who has connected, and not shown yet who it is.
  struct visitor {
    descriptor socket;
    endpoint from;
    std::string heard;
    steady_time until;
  };
  enum class reading { unfinished, finished, closed };

  static constexpr auto one_call = std::chrono::seconds(10);
  static constexpr auto between_calls = std::chrono::milliseconds(100);

  [[nodiscard]] known_rank const& other(int peer) const {
    return others_[static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] link& link_to(int peer) { return links_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] bool calls(int peer) const { return other(peer).where < other(rank_).where; }
  [[nodiscard]] std::string at(int peer) const { return other(peer).where.text(); }

  [[nodiscard]] std::vector<int> late() const {
    std::vector<int> out;
    for (std::size_t peer = 0; peer < links_.size(); ++peer)
      if (static_cast<int>(peer) != rank_ && links_[peer].now != link::state::there)
        out.push_back(static_cast<int>(peer));
    return out;
  }

  void require_usable(int peer) const {
    auto const& own = other(rank_).where;
    auto const& where = other(peer).where;
    require(own.family() == where.family(), "rank ", rank_, " listens at ", own.text(),
            " and rank ", peer, " at ", where.text(),
            ": one by IPv4 and the other by IPv6; give the interfaces of all machines addresses "
            "of one kind, or choose others");
    require(own < where || where < own, "ranks ", rank_, " and ", peer, " both listen at ",
            own.text(), ": their machines have the same address; give each machine its own");
  }

  void call_those_due() {
    auto const now = clock::now();
    for (int const peer : late()) {
      auto& to = link_to(peer);
      if (!calls(peer) || to.now == link::state::asking || now < to.due) continue;
      auto const& where = other(peer).where;
      to.socket =
          descriptor(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      require(to.socket.get() >= 0, "rank ", rank_, " has no socket to connect to rank ", peer,
              ": ", std::generic_category().message(errno));
      to.now = link::state::calling;
      to.due = now + one_call;
      if (::connect(to.socket.get(), where.get(), where.length()) != 0 && errno != EINPROGRESS)
        note_refused(peer, errno);
    }
  }

  void call_again(int peer, std::chrono::milliseconds pause) {
    auto& to = link_to(peer);
    to.socket = descriptor();
    to.heard.clear();
    to.now = link::state::absent;
    to.due = clock::now() + pause;
  }

  void note_refused(int peer, int code) {
    if (code == ETIMEDOUT || code == ECONNRESET || code == EAGAIN)
      return call_again(peer, between_calls);
    if (link_to(peer).was_reached && !link_to(peer).was_wrong)
      throw aborted(concat("rank ", peer, " closed its connection to rank ", rank_,
                           " before it had greeted: it has failed, and says why, or is of another "
                           "run"));
    throw timed_out(concat(
        "rank ", rank_, " cannot connect to rank ", peer, " at ", at(peer), ": ",
        std::generic_category().message(code),
        code == ECONNREFUSED ? "; it listened there before: it has ended, and says why in its own "
                               "log, or a firewall refuses (docs/launch.md)"
        : code == EHOSTUNREACH || code == ENETUNREACH
            ? concat("; see whether that machine is up and the network between, and whether the "
                     "interface ",
                     interface_, " is one by which all machines reach each other")
            : std::string()));
  }

  // Waits for something to happen, to that time at most, and sees to it.
  void look(steady_time until) {
    std::vector<pollfd> events{{listens_ ? listener_.get() : -1, POLLIN, 0}};
    std::vector<int> called;
    for (int const peer : late()) {
      auto const& to = link_to(peer);
      if (!calls(peer)) continue;
      until = std::min(until, to.now == link::state::asking ? until : to.due);
      if (to.now == link::state::absent) continue;
      called.push_back(peer);
      events.push_back({to.socket.get(),
                        static_cast<short>(to.now == link::state::calling ? POLLOUT : POLLIN), 0});
    }
    for (auto const& one : visitors_) events.push_back({one.socket.get(), POLLIN, 0});
    auto const now = clock::now();
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now).count();
    static_cast<void>(::poll(events.data(), events.size(),
                             static_cast<int>(std::max<std::int64_t>(left + 1, 0))));
    auto event = events.begin();
    bool const somebody_comes = event->revents != 0;
    for (int const peer : called)
      if ((++event)->revents != 0) go_on(peer);
    for (auto one = visitors_.begin(); one != visitors_.end();) {
      auto const it = one++;
      if ((++event)->revents != 0)
        hear(it);
      else if (it->until < now)
        drop(it);
    }
    listens_ = true;
    if (somebody_comes) take_visitors();
  }

  // A call that has got through, or an answer to it.
  void go_on(int peer) {
    auto& to = link_to(peer);
    if (to.now == link::state::calling) {
      int code = 0;
      socklen_t length = sizeof code;
      static_cast<void>(::getsockopt(to.socket.get(), SOL_SOCKET, SO_ERROR, &code, &length));
      if (code != 0) return note_refused(peer, code);
      if (!send_all(to.socket, hello(rank_, other(peer).shown)))
        return call_again(peer, between_calls);
      to.was_reached = true;
      to.now = link::state::asking;
      return;
    }
    auto const& expected = other(peer).expected;
    auto const found = read(to.socket, to.heard, expected.size());
    if (found == reading::finished && is_same(to.heard, expected)) {
      to.now = link::state::there;
      to.was_wrong = false;
    } else if (found == reading::finished) {
      to.was_wrong = true;
      call_again(peer, std::chrono::seconds(1));
    } else if (found == reading::closed) {
      call_again(peer, between_calls);  // it had to make room, or has ended, which is seen then
    }
  }

  void take_visitors() {
    for (std::size_t taken = 0; taken < most_visitors; ++taken) {
      endpoint from;
      socklen_t length = endpoint::size;
      descriptor socket(
          ::accept4(listener_.get(), from.get(), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        bool const nobody = errno == EAGAIN || errno == EWOULDBLOCK;
        if (!nobody && !visitors_.empty()) drop(visitors_.begin());  // no descriptors, no memory
        listens_ = nobody;  // else after what else happens, or a moment
        return;
      }
      if (visitors_.size() >= most_visitors + links_.size()) drop(visitors_.begin());
      visitors_.push_back({std::move(socket), from, {}, clock::now() + visit});
      hear(std::prev(visitors_.end()));  // a rank speaks at once
    }
  }

  // Reads who it is, and lets it in or drops it.
  void hear(std::list<visitor>::iterator one) {
    std::int32_t from = 0;
    auto const length = sizeof from + other(rank_).shown.size();
    auto const found = read(one->socket, one->heard, length);
    if (found == reading::unfinished) return;
    if (found == reading::closed) return drop(one);
    std::memcpy(&from, one->heard.data(), sizeof from);
    bool const is_rank = from >= 0 && static_cast<std::size_t>(from) < others_.size() &&
                         from != rank_ && !calls(from) &&
                         is_same(one->heard.substr(sizeof from), other(from).expected);
    if (!is_rank || !send_all(one->socket, other(from).shown)) return drop(one);
    // one that calls again has given its earlier call up
    link_to(from).socket = std::move(one->socket);
    link_to(from).now = link::state::there;
    visitors_.erase(one);
  }

  void drop(std::list<visitor>::iterator one) {
    ++dropped_;
    last_dropped_ = one->from.text();
    visitors_.erase(one);
  }

  [[nodiscard]] static reading read(descriptor const& from, std::string& into, std::size_t length) {
    while (into.size() < length) {
      std::array<char, 1024> some;
      auto const wanted = std::min(some.size(), length - into.size());
      auto const got = ::recv(from.get(), some.data(), wanted, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return reading::unfinished;
      if (got <= 0) return reading::closed;
      into.append(some.data(), static_cast<std::size_t>(got));
    }
    return reading::finished;
  }

  // A few bytes into a new connection, which takes them at once.
  [[nodiscard]] static bool send_all(descriptor const& to, std::string const& text) {
    return ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // In a time that does not tell how much of them is the same.
  [[nodiscard]] static bool is_same(std::string_view heard, std::string_view expected) {
    unsigned char differs = heard.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(heard.size(), expected.size()); ++i)
      differs |= static_cast<unsigned char>(heard[i] ^ expected[i]);
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
    auto all = late();
    auto unreached = all;
    std::erase_if(unreached,
                  [this](int peer) { return links_[static_cast<std::size_t>(peer)].was_reached; });
    if (unreached.empty()) {
      auto const& first = links_[static_cast<std::size_t>(all[0])];
      return concat("rank ", rank_, " has reached ", name_ranks(all), ", at ", at(all[0]),
                    first.was_wrong
                        ? ", and found somebody who does not have this run's key"
                        : concat(", and has no answer within ", seconds,
                                 " s: it may itself be waiting for another rank, or stands still"),
                    strangers);
    }
    return concat(
        "rank ", rank_, " waited ", seconds, " s to connect to ", name_ranks(unreached),
        unreached.size() == 1 ? ", at " + at(unreached[0]) : "",
        "; see whether that machine and rank still run, whether machines reach each other by the "
        "interface ",
        interface_, ", and whether a firewall lets connections of ranks in (docs/launch.md)",
        strangers);
  }

  int rank_;
  descriptor listener_;
  std::vector<known_rank> others_;
  std::string interface_;
  std::vector<link> links_;
  std::list<visitor> visitors_;  // the oldest first
  bool listens_ = true;          // else not now: what the next one needs is missing
  std::size_t dropped_ = 0;
  std::string last_dropped_;
};

}  // namespace parallel::gloo::detail
