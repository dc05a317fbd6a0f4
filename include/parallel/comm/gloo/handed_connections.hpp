// gloo::detail::hand_over: gives gloo finished connections, so that it makes none itself.
//
// A gloo pair accepts the first connection as that of its rank, so that one connection of a
// stranger would break a start. Therefore the pairs of this rank are connected to this process
// itself, at loopback addresses that no other process knows, and each descriptor in gloo is then
// replaced by that of a connection both ends of which have shown that they belong to the run
// (connecting.hpp). gloo's event loop must register the new descriptor, since it knew the socket
// that was replaced.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
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
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/comm/gloo/endpoint.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/random_bytes.hpp>

namespace parallel::gloo::detail {

/// The gloo device for pairs that are connected to this process itself, at a loopback address that
/// no other process knows.
[[nodiscard]] inline std::shared_ptr<::gloo::transport::Device> device_of_this_process() {
  ::gloo::transport::tcp::attr address;
  std::array<unsigned char, 3> parts{1, 1, 1};
  static_cast<void>(fill_randomly(std::as_writable_bytes(std::span(parts))));
  address.hostname = concat("127.", int{parts[0]}, '.', int{parts[1]}, '.', 1 + parts[2] % 254);
  try {
    return ::gloo::transport::tcp::CreateDevice(address);
  } catch (std::exception const& problem) {
    fail(
        "this machine's loopback interface cannot be used, by which ranks hand gloo their "
        "connections: ",
        problem.what(), "; bring it up (ip link set lo up)");
  }
}

/// A gloo pair that is connected to this process.
struct own_connection {
  descriptor other_end;  // the end that is not the pair's
  std::string local;     // the address of the pair's end
  std::string remote;    // the address of the other end
};

/// Makes a new gloo pair for `peer`, and connects to it from this process.
[[nodiscard]] inline own_connection connect_to_own_pair(::gloo::transport::Context& context,
                                                        int peer) {
  auto& pair = *context.createPair(peer);
  ::gloo::transport::tcp::Address const own_address(pair.address().bytes());
  require(own_address.getSeq() == ::gloo::transport::tcp::Address::kSequenceNumberUnset,
          "this version of gloo (since May 2023) has one listener for all pairs, so that no "
          "connections "
          "can be handed to it; build with an older one, such as that of Debian 12");
  auto const& listener = own_address.getSockaddr();
  endpoint const listening_address(&listener, sizeof listener);
  own_connection connection{
      .other_end = descriptor(::socket(listening_address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)),
      .local = listening_address.text(),
      .remote = {}};
  if (connection.other_end.get() < 0 ||
      ::connect(connection.other_end.get(), listening_address.get(), listening_address.length()) !=
          0) {
    int const problem = errno;
    fail("this process cannot connect to itself at ", listening_address.text(), ": ",
         std::generic_category().message(problem));
  }
  connection.remote = endpoint::of_socket(connection.other_end.get()).text();
  // The pair waits for a connection only if the other end has the higher address.
  sockaddr_storage highest = {};
  std::memset(&highest, 0xff, sizeof highest);
  highest.ss_family = listener.ss_family;
  pair.connect(::gloo::transport::tcp::Address(highest).bytes());
  return connection;
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

/// Replaces the connection of each pair of `context`, whose device is `device`, by the connection
/// to its rank: connections[rank].
inline void hand_over(::gloo::transport::Context& context, ::gloo::transport::Device& device,
                      std::vector<descriptor> const& connections) {
  constexpr int max_tries = 10;  // another process may connect to an address by chance
  std::vector<int> remaining;
  for (int peer = 0; peer < context.size; ++peer)
    if (peer != context.rank) remaining.push_back(peer);
  for (int tries = 0; !remaining.empty(); ++tries) {
    require(tries < max_tries, "this process cannot connect to itself: in ", max_tries,
            " tries another process connected first; start again");
    std::map<int, own_connection> own_connections;
    for (int const peer : remaining)
      own_connections.emplace(peer, connect_to_own_pair(context, peer));
    auto const found = connections_by_ends();
    std::erase_if(remaining, [&](int peer) {
      auto const& ends = own_connections.at(peer);
      auto const entry = found.find({ends.local, ends.remote});
      if (entry == found.end()) return false;
      int const pair_descriptor = entry->second;
      auto const connection = connections[static_cast<std::size_t>(peer)].get();
      int const enabled = 1;
      static_cast<void>(
          ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof enabled));
      if (::dup3(connection, pair_descriptor, O_CLOEXEC) != pair_descriptor)
        fail("a connection cannot be used: ", std::generic_category().message(errno));
      dynamic_cast<::gloo::transport::tcp::Device&>(device).registerDescriptor(
          pair_descriptor, EPOLLIN,
          dynamic_cast<::gloo::transport::tcp::Handler*>(context.getPair(peer).get()));
      return true;
    });
  }
}

}  // namespace parallel::gloo::detail
