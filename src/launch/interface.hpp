// The network interface on which the ranks of this machine listen.
#pragma once

#include <iosfwd>
#include <istream>
#include <string>

namespace apps {

/// Throws `error` unless this machine has an interface of that name with an address that other
/// machines can reach. The message lists the usable interfaces.
void require_interface(std::string const& name);

/// The interface of the default route; without such a route, the first interface with an address
/// that is not a loopback address. Throws `error` if there is no such interface.
[[nodiscard]] std::string usual_interface();

/// The interface of the default route in the system's routing tables, IPv4 before IPv6
/// (/proc/net/route, /proc/net/ipv6_route); empty if neither has a default route.
[[nodiscard]] std::string default_route_interface(std::istream& ip4, std::istream& ip6);

}  // namespace apps
