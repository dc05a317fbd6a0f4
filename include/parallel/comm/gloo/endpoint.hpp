// gloo::detail::endpoint: the address at which a rank listens, and the socket that listens.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gloo/transport/tcp/device.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace parallel::gloo::detail {

/// An address and a port, IPv4 or IPv6.
class endpoint {
 public:
  static constexpr std::size_t size = sizeof(sockaddr_storage);

  endpoint() = default;
  /// From the bytes() that another process has written.
  explicit endpoint(std::string_view bytes) {
    require(bytes.size() >= size, "an address of ", bytes.size(), " bytes; expected ", size);
    std::memcpy(&address_, bytes.data(), size);
  }
  endpoint(void const* address, std::size_t length) { std::memcpy(&address_, address, length); }
  /// The address to which a socket is bound.
  [[nodiscard]] static endpoint of_socket(int socket) {
    endpoint out;
    socklen_t length = sizeof out.address_;
    if (::getsockname(socket, out.get(), &length) != 0)
      fail("a socket has no address: ", std::generic_category().message(errno));
    return out;
  }

  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<char const*>(&address_), size};
  }
  [[nodiscard]] int family() const { return address_.ss_family; }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&address_); }
  [[nodiscard]] sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&address_); }
  [[nodiscard]] socklen_t length() const {
    return is_six() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }

  /// "[127.0.0.1]:4711"
  [[nodiscard]] std::string text() const {
    std::array<char, INET6_ADDRSTRLEN> host = {};
    void const* const bytes = is_six() ? static_cast<void const*>(&six().sin6_addr)
                                       : static_cast<void const*>(&four().sin_addr);
    static_cast<void>(::inet_ntop(family(), bytes, host.data(), host.size()));
    return concat('[', host.data(), "]:", ntohs(is_six() ? six().sin6_port : four().sin_port));
  }

  /// The order that determines on both sides which of two ranks connects to the other.
  [[nodiscard]] friend bool operator<(endpoint const& a, endpoint const& b) {
    return a.sort_key() < b.sort_key();
  }

 private:
  [[nodiscard]] bool is_six() const { return family() == AF_INET6; }
  [[nodiscard]] sockaddr_in const& four() const {
    return reinterpret_cast<sockaddr_in const&>(address_);
  }
  [[nodiscard]] sockaddr_in6 const& six() const {
    return reinterpret_cast<sockaddr_in6 const&>(address_);
  }
  [[nodiscard]] std::string sort_key() const {
    auto const raw = [](auto const& value) {
      return std::string(reinterpret_cast<char const*>(&value), sizeof value);
    };
    return is_six() ? raw(six().sin6_addr) + raw(six().sin6_port)
                    : raw(four().sin_addr) + raw(four().sin_port);
  }

  sockaddr_storage address_ = {};
};

/// A non-blocking socket that listens at the address of `interface`, on a port that the system
/// chooses. Throws when it cannot be made.
[[nodiscard]] inline descriptor listen_on(std::string const& interface) {
  ::gloo::transport::tcp::attr attributes;
  attributes.iface = interface;
  auto const found = ::gloo::transport::tcp::CreateDeviceAttr(attributes);
  endpoint const address(&found.ai_addr, static_cast<std::size_t>(found.ai_addrlen));
  descriptor out(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (out.get() < 0 || ::bind(out.get(), address.get(), address.length()) != 0 ||
      ::listen(out.get(), SOMAXCONN) != 0) {
    int const problem = errno;
    fail("a rank cannot listen at ", address.text(), ", the address of the interface ", interface,
         ": ", std::generic_category().message(problem));
  }
  return out;
}

}  // namespace parallel::gloo::detail
