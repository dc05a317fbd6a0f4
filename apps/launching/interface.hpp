// Which network interface the ranks of this machine listen on.
#pragma once

#include <iosfwd>
#include <istream>
#include <string>

namespace apps {

/// Throws `error` unless this machine has an interface of that name with an address that other
/// machines can reach. The message lists the usable interfaces.
void require_interface(std::string const& name);

/// The interface of the default route, or else the first one with an address that is not a loopback
/// address. Throws `error` where there is none.
[[nodiscard]] std::string usual_interface();

/// The interface of the default route in the system's routing tables, IPv4 before IPv6
/// (/proc/net/route, /proc/net/ipv6_route); empty where there is none.
[[nodiscard]] std::string interface_of_default_route(std::istream& ip4, std::istream& ip6);

}  // namespace apps
