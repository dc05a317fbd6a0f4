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

/// A port that nobody listens on now.
int free_port() {
  parallel::nccl::detail::socket const one(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  REQUIRE(::bind(one.get(), reinterpret_cast<sockaddr*>(&any), size) == 0);
  REQUIRE(::getsockname(one.get(), reinterpret_cast<sockaddr*>(&any), &size) == 0);
  return ntohs(any.sin_port);
}

tcp_address place(int port, int rank, int ranks, int deadline_ms, std::string run = "job 1") {
  return {"127.0.0.1", port, std::move(run), rank, ranks, std::chrono::milliseconds(deadline_ms)};
}

/// A process that is that rank; ends with 0 when it was given `expected`.
pid_t process(tcp_address const& at, std::string const& expected) {
  pid_t const one = ::fork();
  if (one != 0) return one;
  std::string got(expected.size(), '?');
  try {
    share_over_tcp(at, got);
  } catch (parallel::error const&) {
    ::_exit(2);
  }
  ::_exit(got == expected ? 0 : 1);
}
int status_of(pid_t one) {
  int status = 0;
  ::waitpid(one, &status, 0);
  return WEXITSTATUS(status);
}

TEST_CASE("processes are given what rank 0 has, whoever comes first") {
  int const port = free_port();
  std::string id(128, 'x');
  id[5] = '\0';
  std::vector<pid_t> others;
  for (int rank = 1; rank < 4; ++rank) others.push_back(process(place(port, rank, 4, 5000), id));
  std::string mine = id;
  share_over_tcp(place(port, 0, 4, 5000), mine);
  for (pid_t const one : others) CHECK(status_of(one) == 0);
}

TEST_CASE("they are also where the name of rank 0's machine is one of IPv6") {
  parallel::nccl::detail::socket const one(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 here{};
  here.sin6_family = AF_INET6;
  here.sin6_addr = in6addr_loopback;
  if (::bind(one.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) != 0) {
    MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  int const port = free_port();
  auto first = place(port, 0, 3, 20000), second = place(port, 1, 3, 20000);
  second.host = "::1";
  auto const third = place(port, 2, 3, 20000);  // by IPv4
  std::string const bytes = "of rank 0";
  std::vector<pid_t> const all{process(second, bytes), process(third, bytes)};
  std::string mine = bytes;
  share_over_tcp(first, mine);
  for (auto const id : all) CHECK(status_of(id) == 0);
}

TEST_CASE("ranks that do not come, are of another run or come twice") {
  int const port = free_port();
  auto const stranger = process(place(port, 1, 3, 2000, "job 2"), "id");
  auto const second = process(place(port, 2, 3, 2000), "id");
  std::string id = "id";
  auto const told = message_of([&] { share_over_tcp(place(port, 0, 3, 400), id); });
  CHECK(told == parallel::concat("rendezvous at 127.0.0.1:", port,
                                 ": these ranks have not come within 0.4 s: 1"));
  CHECK(status_of(second) == 0);
  CHECK(status_of(stranger) == 2);
}

TEST_CASE("nobody listens") {
  std::string id = "id";
  auto const told = message_of([&] { share_over_tcp(place(free_port(), 1, 2, 50), id); });
  CHECK(told.find("rank 0 does not listen") != std::string::npos);
}

}  // namespace nccl_tcp_rendezvous_test
