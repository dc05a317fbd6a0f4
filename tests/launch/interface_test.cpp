// The choice of the network interface from routing tables in the form of Linux.
#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include <launch/interface.hpp>
#include <parallel/core/error.hpp>

namespace interface_test {

inline std::string default_interface(std::string const& ip4, std::string const& ip6) {
  std::istringstream ip4_routes(ip4), ip6_routes(ip6);
  return apps::default_route_interface(ip4_routes, ip6_routes);
}

constexpr auto route_header =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
constexpr auto docker4 = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
constexpr auto default4 = "eth1\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
constexpr auto local6 =
    "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001 docker0\n";
constexpr auto default6 =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fe800000000000000000000000000001 00000400 00000003 00000000 00450003     eth0\n";
constexpr auto unreachable6 =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

TEST_CASE("default_route_interface: the default route of IPv4, or else of IPv6, decides") {
  auto const ip4_routes = std::string(route_header) + docker4;
  CHECK(default_interface(ip4_routes + default4, std::string(local6) + default6) == "eth1");
  CHECK(default_interface(ip4_routes, std::string(unreachable6) + local6 + default6) == "eth0");
  CHECK(default_interface("", default6) == "eth0");
  CHECK(default_interface(ip4_routes, std::string(local6) + unreachable6) == "");
  CHECK(default_interface("", "00000000000000000000000000000000 00") == "");
}

TEST_CASE(
    "require_interface: an unknown interface is refused with the names of the existing ones") {
  CHECK_THROWS_WITH_AS(apps::require_interface("no-such0"),
                       doctest::Contains("this machine has no interface of that name"),
                       parallel::error);
  CHECK_NOTHROW(apps::require_interface("lo"));
}

}  // namespace interface_test
