// tcp_rendezvous: processes that share a network receive bytes that rank 0 has made.
//
// Rank 0 listens, the others connect as soon as it does and send their run and rank; it answers
// each with the bytes. A process of another run, or a rank that comes twice, is refused. Nothing is
// encrypted: use it only inside one cluster's network.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hash.hpp>

namespace parallel::nccl {

namespace detail {

/// A socket whose reads and writes keep a deadline.
class socket {
 public:
  explicit socket(int fd) : fd_(fd) {}
  [[nodiscard]] int get() const { return fd_.get(); }

  /// Whether one of `events` has happened before `deadline`.
  [[nodiscard]] bool wait(short events, steady_time deadline) const {
    pollfd polled{get(), events, 0};
    for (;;) {
      auto const remaining = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - steady_time::clock::now());
      int const ready = ::poll(&polled, 1, static_cast<int>(std::max<long>(0, remaining.count())));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }
  [[nodiscard]] bool send_all(std::string_view bytes, steady_time deadline) const {
    while (!bytes.empty()) {
      if (!wait(POLLOUT, deadline)) return false;
      auto const sent = ::send(get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  [[nodiscard]] bool receive_all(char* out, std::size_t size, steady_time deadline) const {
    while (size > 0) {
      if (!wait(POLLIN, deadline)) return false;
      auto const got = ::recv(get(), out, size, 0);
      if (got <= 0) return false;
      out += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  descriptor fd_;
};

/// The first message of a rank.
struct greeting {
  char magic[8] = {'P', 'L', 'M', 'r', 'd', 'v', '0', '1'};
  std::uint64_t run = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
};

using addresses = std::unique_ptr<addrinfo, decltype([](addrinfo* a) { ::freeaddrinfo(a); })>;
[[nodiscard]] inline addresses resolve(std::string const& host, int port, bool listens) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listens ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  int const status =
      ::getaddrinfo(listens ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  require(status == 0, "rendezvous at ", host, ':', port, ": ", ::gai_strerror(status));
  return addresses(found);
}

[[nodiscard]] inline socket socket_for(addrinfo const& address) {
  return socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

/// A socket connected to the first address that accepts it; empty: errno has the reason.
[[nodiscard]] inline std::optional<socket> connected(addresses const& candidates) {
  for (auto const* candidate = candidates.get(); candidate != nullptr;
       candidate = candidate->ai_next)
    if (auto out = socket_for(*candidate);
        ::connect(out.get(), candidate->ai_addr, candidate->ai_addrlen) == 0)
      return out;
  return std::nullopt;
}

/// A socket that listens to IPv6 and IPv4, or without IPv6 to IPv4; empty: errno has the reason.
[[nodiscard]] inline std::optional<socket> listening(addresses const& candidates, int backlog) {
  for (int const family : {AF_INET6, AF_INET})
    for (auto const* candidate = candidates.get(); candidate != nullptr;
         candidate = candidate->ai_next) {
      if (candidate->ai_family != family) continue;
      auto out = socket_for(*candidate);
      int const yes = 1, no = 0;
      ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (family == AF_INET6) ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (::bind(out.get(), candidate->ai_addr, candidate->ai_addrlen) == 0 &&
          ::listen(out.get(), backlog) == 0)
        return out;
    }
  return std::nullopt;
}

}  // namespace detail

struct tcp_address {
  std::string host;  // of rank 0
  int port;
  std::string run;  // the same on all ranks
  int rank, ranks;
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
};

/// Copies the bytes of rank 0, of which all ranks have equally many, to every rank. Blocks until
/// all have come; throws `error` that names those that have not come before the deadline.
inline void share_over_tcp(tcp_address const& meeting_point, std::string& bytes) {
  using namespace detail;
  auto const deadline = steady_time::clock::now() + meeting_point.deadline;
  auto const addresses_of_root =
      resolve(meeting_point.host, meeting_point.port, meeting_point.rank == 0);
  auto const location = concat("rendezvous at ", meeting_point.host, ':', meeting_point.port);
  greeting const own_greeting{.run = fnv1a(meeting_point.run),
                              .rank = static_cast<std::uint32_t>(meeting_point.rank),
                              .ranks = static_cast<std::uint32_t>(meeting_point.ranks)};
  if (meeting_point.rank > 0) {
    for (;;) {
      if (auto const out = connected(addresses_of_root)) {
        std::string_view const message(reinterpret_cast<char const*>(&own_greeting),
                                       sizeof own_greeting);
        require(out->send_all(message, deadline) &&
                    out->receive_all(bytes.data(), bytes.size(), deadline),
                location, ": rank 0 does not take rank ", meeting_point.rank,
                "; it is of another run, has another number of ranks, or came twice");
        return;
      }
      require(steady_time::clock::now() < deadline, location, ": rank 0 does not listen (",
              std::generic_category().message(errno), "); is MASTER_ADDR its machine?");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  auto const listener = listening(addresses_of_root, meeting_point.ranks);
  require(listener.has_value(), location,
          ": rank 0 cannot listen: ", std::generic_category().message(errno), "; use another port");
  std::vector<char> has_come(static_cast<std::size_t>(meeting_point.ranks));
  for (int missing = meeting_point.ranks - 1; missing > 0;) {
    if (!listener->wait(POLLIN, deadline)) {
      std::string names;
      for (int r = 1; r < meeting_point.ranks; ++r)
        if (has_come[static_cast<std::size_t>(r)] == 0)
          names += concat(names.empty() ? "" : ", ", r);
      fail(location, ": these ranks have not come within ",
           static_cast<double>(meeting_point.deadline.count()) / 1000, " s: ", names);
    }
    detail::socket const connection(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    greeting received;
    auto const reply_deadline =
        std::min(deadline, steady_time::clock::now() + std::chrono::seconds(5));
    if (!connection.receive_all(reinterpret_cast<char*>(&received), sizeof received,
                                reply_deadline))
      continue;
    bool const is_valid =
        std::memcmp(received.magic, own_greeting.magic, sizeof own_greeting.magic) == 0 &&
        received.run == own_greeting.run && received.ranks == own_greeting.ranks &&
        received.rank > 0 && received.rank < own_greeting.ranks && has_come[received.rank] == 0;
    if (!is_valid || !connection.send_all(bytes, reply_deadline)) continue;
    has_come[received.rank] = 1;
    --missing;
  }
}

}  // namespace parallel::nccl
