// Which network interface the ranks of this machine listen on.
#pragma once

#include <iosfwd>
#include <string>

namespace apps {

/// Throws `error` unless this machine has an interface of that name with an address that others can
/// reach, naming those that it has.
void require_interface(std::string const& name);

/// That of the default route, or the first with an address that is not the machine's own; throws
/// where there is none.
[[nodiscard]] std::string usual_interface();

/// That of the default route by what the system's tables of routes say, that of IPv4 first
/// (/proc/net/route, /proc/net/ipv6_route); empty where there is none.
[[nodiscard]] std::string interface_of_default_route(std::istream& ip4, std::istream& ip6);

}  // namespace apps
