// tcp_rendezvous: how processes that share a network are given what one of them has made.
//
// Rank 0 listens, the others connect as soon as it does and say which run and rank they are; it
// answers each with the bytes. Whoever says another run, or comes twice, is refused. Nothing is
// encrypted: use it inside one cluster's network.
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

  /// Whether something has come before `until`.
  [[nodiscard]] bool wait(short what, steady_time until) const {
    pollfd one{get(), what, 0};
    for (;;) {
      auto const left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_time::clock::now());
      int const ready = ::poll(&one, 1, static_cast<int>(std::max<long>(0, left.count())));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }
  [[nodiscard]] bool send_all(std::string_view bytes, steady_time until) const {
    while (!bytes.empty()) {
      if (!wait(POLLOUT, until)) return false;
      auto const sent = ::send(get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  [[nodiscard]] bool receive_all(char* to, std::size_t size, steady_time until) const {
    while (size > 0) {
      if (!wait(POLLIN, until)) return false;
      auto const got = ::recv(get(), to, size, 0);
      if (got <= 0) return false;
      to += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  descriptor fd_;
};

/// What a rank says of itself.
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

[[nodiscard]] inline socket socket_for(addrinfo const& where) {
  return socket(::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol));
}

/// A socket connected to the first of the addresses that takes it; none: errno says why.
[[nodiscard]] inline std::optional<socket> connected(addresses const& found) {
  for (auto const* at = found.get(); at != nullptr; at = at->ai_next)
    if (auto out = socket_for(*at); ::connect(out.get(), at->ai_addr, at->ai_addrlen) == 0)
      return out;
  return std::nullopt;
}

/// A socket that listens to IPv6 and IPv4, or where there is no IPv6 to IPv4; none: errno says why.
[[nodiscard]] inline std::optional<socket> listening(addresses const& found, int most) {
  for (int const family : {AF_INET6, AF_INET})
    for (auto const* at = found.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family) continue;
      auto out = socket_for(*at);
      int const yes = 1, no = 0;
      ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (family == AF_INET6) ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (::bind(out.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(out.get(), most) == 0)
        return out;
    }
  return std::nullopt;
}

}  // namespace detail

struct tcp_place {
  std::string host;  // of rank 0
  int port;
  std::string run;  // the same on all ranks
  int rank, ranks;
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
};

/// The bytes of rank 0, which all ranks have as many of, on every rank. Blocks until all have come;
/// throws `error` that names those that have not before the deadline.
inline void share_over_tcp(tcp_place const& at, std::string& bytes) {
  using namespace detail;
  auto const until = steady_time::clock::now() + at.deadline;
  auto const found = resolve(at.host, at.port, at.rank == 0);
  auto const where = concat("rendezvous at ", at.host, ':', at.port);
  greeting const mine{.run = fnv1a(at.run),
                      .rank = static_cast<std::uint32_t>(at.rank),
                      .ranks = static_cast<std::uint32_t>(at.ranks)};
  if (at.rank > 0) {
    for (;;) {
      if (auto const out = connected(found)) {
        std::string_view const said(reinterpret_cast<char const*>(&mine), sizeof mine);
        require(out->send_all(said, until) && out->receive_all(bytes.data(), bytes.size(), until),
                where, ": rank 0 does not take rank ", at.rank,
                "; it is of another run, has another number of ranks, or came twice");
        return;
      }
      require(steady_time::clock::now() < until, where, ": rank 0 does not listen (",
              std::generic_category().message(errno), "); is MASTER_ADDR its machine?");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  auto const in = listening(found, at.ranks);
  require(in.has_value(), where, ": rank 0 cannot listen: ", std::generic_category().message(errno),
          "; use another port");
  std::vector<char> came(static_cast<std::size_t>(at.ranks));
  for (int missing = at.ranks - 1; missing > 0;) {
    if (!in->wait(POLLIN, until)) {
      std::string names;
      for (int r = 1; r < at.ranks; ++r)
        if (came[static_cast<std::size_t>(r)] == 0) names += concat(names.empty() ? "" : ", ", r);
      fail(where, ": these ranks have not come within ",
           static_cast<double>(at.deadline.count()) / 1000, " s: ", names);
    }
    detail::socket const one(::accept4(in->get(), nullptr, nullptr, SOCK_CLOEXEC));
    greeting other;
    auto const soon = std::min(until, steady_time::clock::now() + std::chrono::seconds(5));
    if (!one.receive_all(reinterpret_cast<char*>(&other), sizeof other, soon)) continue;
    bool const fits = std::memcmp(other.magic, mine.magic, sizeof mine.magic) == 0 &&
                      other.run == mine.run && other.ranks == mine.ranks && other.rank > 0 &&
                      other.rank < mine.ranks && came[other.rank] == 0;
    if (!fits || !one.send_all(bytes, soon)) continue;
    came[other.rank] = 1;
    --missing;
  }
}

}  // namespace parallel::nccl
