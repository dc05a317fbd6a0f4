#include <parallel/comm/nccl/tcp_rendezvous.hpp>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include <parallel/conformance/values.hpp>

namespace nccl_tcp_rendezvous_test {

using parallel::conformance::message_of;
using parallel::nccl::share_over_tcp;
using parallel::nccl::tcp_address;

/// A port on which nobody listens.
int free_port() {
  parallel::nccl::detail::socket const listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

tcp_address address_of(int port, int rank, int ranks, int deadline_ms, std::string run = "job 1") {
  return {"127.0.0.1", port, std::move(run), rank, ranks, std::chrono::milliseconds(deadline_ms)};
}

/// Starts a process for the rank of `address`; it exits with 0 if it received `expected`.
pid_t start_rank(tcp_address const& address, std::string const& expected) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  std::string received(expected.size(), '?');
  try {
    share_over_tcp(address, received);
  } catch (parallel::error const&) {
    ::_exit(2);
  }
  ::_exit(received == expected ? 0 : 1);
}
int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST_CASE("tcp_rendezvous: all processes receive the bytes of rank 0, whichever comes first") {
  int const port = free_port();
  std::string id(128, 'x');
  id[5] = '\0';
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank)
    children.push_back(start_rank(address_of(port, rank, 4, 5000), id));
  std::string own_bytes = id;
  share_over_tcp(address_of(port, 0, 4, 5000), own_bytes);
  for (pid_t const child : children) CHECK(status_of(child) == 0);
}

TEST_CASE("tcp_rendezvous: ranks may reach rank 0 by IPv6 and by IPv4") {
  parallel::nccl::detail::socket const listener(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) != 0) {
    MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  int const port = free_port();
  auto first = address_of(port, 0, 3, 20000), second = address_of(port, 1, 3, 20000);
  second.host = "::1";
  auto const third = address_of(port, 2, 3, 20000);  // by IPv4
  std::string const bytes = "of rank 0";
  std::vector<pid_t> const children{start_rank(second, bytes), start_rank(third, bytes)};
  std::string own_bytes = bytes;
  share_over_tcp(first, own_bytes);
  for (auto const child : children) CHECK(status_of(child) == 0);
}

TEST_CASE("tcp_rendezvous: a rank of another run is refused, and missing ranks are named") {
  int const port = free_port();
  auto const stranger = start_rank(address_of(port, 1, 3, 2000, "job 2"), "id");
  auto const second = start_rank(address_of(port, 2, 3, 2000), "id");
  std::string id = "id";
  auto const message = message_of([&] { share_over_tcp(address_of(port, 0, 3, 400), id); });
  CHECK(message == parallel::concat("rendezvous at 127.0.0.1:", port,
                                    ": these ranks have not come within 0.4 s: 1"));
  CHECK(status_of(second) == 0);
  CHECK(status_of(stranger) == 2);
}

TEST_CASE("tcp_rendezvous: an error says that rank 0 does not listen") {
  std::string id = "id";
  auto const message = message_of([&] { share_over_tcp(address_of(free_port(), 1, 2, 50), id); });
  CHECK(message.find("rank 0 does not listen") != std::string::npos);
}

}  // namespace nccl_tcp_rendezvous_test
