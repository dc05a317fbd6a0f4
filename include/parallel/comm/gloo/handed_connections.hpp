// gloo::detail::hand_over: gloo is handed connections, and makes none itself.
//
// A pair of gloo's takes whoever connects to it first for its rank, so that one empty connection of
// a stranger ends a start. So the pairs of this rank are connected to this process itself, by
// addresses of the loopback that nobody else knows, and each descriptor that gloo has got so is
// replaced by that of a connection both ends of which have shown that they are of the run
// (connecting.hpp). gloo's loop is told of that one anew: it knew the socket that is gone.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/comm/gloo/endpoint.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace parallel::gloo::detail {

/// gloo's device for such pairs: at an address of the loopback that nobody else knows.
[[nodiscard]] inline std::shared_ptr<::gloo::transport::Device> device_of_this_process() {
  ::gloo::transport::tcp::attr where;
  std::array<unsigned char, 3> drawn{1, 1, 1};
  static_cast<void>(::getrandom(drawn.data(), drawn.size(), 0));
  where.hostname = concat("127.", int{drawn[0]}, '.', int{drawn[1]}, '.', 1 + drawn[2] % 254);
  try {
    return ::gloo::transport::tcp::CreateDevice(where);
  } catch (std::exception const& problem) {
    fail(
        "this machine's loopback interface cannot be used, by which ranks hand gloo their "
        "connections: ",
        problem.what(), "; bring it up (ip link set lo up)");
  }
}

/// A pair of gloo's that is connected to this process.
struct own_connection {
  descriptor other_end;  // of what the pair has
  std::string local;     // the addresses of the pair's end
  std::string remote;
};

/// Makes the pair with `peer` anew, and connects to it.
[[nodiscard]] inline own_connection connect_to_own_pair(::gloo::transport::Context& context,
                                                        int peer) {
  auto& pair = *context.createPair(peer);
  ::gloo::transport::tcp::Address const own(pair.address().bytes());
  require(own.getSeq() == ::gloo::transport::tcp::Address::kSequenceNumberUnset,
          "this gloo has one listener for all pairs, as those since May 2023 have, and cannot be "
          "handed connections; build with an older one, as Debian 12 has");
  auto const& listens = own.getSockaddr();
  endpoint const where(&listens, sizeof listens);
  own_connection out{
      .other_end = descriptor(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)),
      .local = where.text(),
      .remote = {}};
  if (out.other_end.get() < 0 || ::connect(out.other_end.get(), where.get(), where.length()) != 0) {
    int const problem = errno;
    fail("this process cannot connect to itself at ", where.text(), ": ",
         std::generic_category().message(problem));
  }
  out.remote = endpoint::of_socket(out.other_end.get()).text();
  // it waits for whom it takes to have the higher address
  sockaddr_storage highest = {};
  std::memset(&highest, 0xff, sizeof highest);
  highest.ss_family = listens.ss_family;
  pair.connect(::gloo::transport::tcp::Address(highest).bytes());
  return out;
}

/// The descriptors of this process's connections, by the addresses of their two ends.
[[nodiscard]] inline std::map<std::pair<std::string, std::string>, int> connections_by_ends() {
  std::map<std::pair<std::string, std::string>, int> out;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    auto const name = entry.path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    endpoint local, remote;
    socklen_t a = endpoint::size, b = endpoint::size;
    if (::getsockname(number, local.get(), &a) == 0 &&
        ::getpeername(number, remote.get(), &b) == 0 &&
        (local.family() == AF_INET || local.family() == AF_INET6))
      out[{local.text(), remote.text()}] = number;
  }
  return out;
}

/// Lets the pairs of `context`, whose device that is, use these connections, by rank.
inline void hand_over(::gloo::transport::Context& context, ::gloo::transport::Device& device,
                      std::vector<descriptor> const& connections) {
  constexpr int most_tries = 10;  // somebody may have come before, who has guessed an address
  std::vector<int> left;
  for (int peer = 0; peer < context.size; ++peer)
    if (peer != context.rank) left.push_back(peer);
  for (int tries = 0; !left.empty(); ++tries) {
    require(tries < most_tries,
            "this process cannot connect to itself: others take its connections");
    std::map<int, own_connection> own;
    for (int const peer : left) own.emplace(peer, connect_to_own_pair(context, peer));
    auto const found = connections_by_ends();
    std::erase_if(left, [&](int peer) {
      auto const& ends = own.at(peer);
      auto const place = found.find({ends.local, ends.remote});
      if (place == found.end()) return false;
      int const number = place->second;
      auto const connection = connections[static_cast<std::size_t>(peer)].get();
      int const yes = 1;
      static_cast<void>(::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
      if (::dup3(connection, number, O_CLOEXEC) != number)
        fail("a connection cannot be used: ", std::generic_category().message(errno));
      dynamic_cast<::gloo::transport::tcp::Device&>(device).registerDescriptor(
          number, EPOLLIN,
          dynamic_cast<::gloo::transport::tcp::Handler*>(context.getPair(peer).get()));
      return true;
    });
  }
}

}  // namespace parallel::gloo::detail
