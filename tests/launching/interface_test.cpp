// Which interface ranks listen on, by tables of routes as Linux gives them.
#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include <launching/interface.hpp>
#include <parallel/core/error.hpp>

namespace interface_test {

inline std::string chosen(std::string const& ip4, std::string const& ip6) {
  std::istringstream four(ip4), six(ip6);
  return apps::interface_of_default_route(four, six);
}

constexpr auto head =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
constexpr auto docker4 = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
constexpr auto default4 = "eth1\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
constexpr auto local6 =
    "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001 docker0\n";
constexpr auto default6 =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fe800000000000000000000000000001 00000400 00000003 00000000 00450003     eth0\n";
constexpr auto nowhere6 =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

TEST_CASE("the interface of the default route is that of IPv4, or else of IPv6") {
  auto const four = std::string(head) + docker4;
  CHECK(chosen(four + default4, std::string(local6) + default6) == "eth1");
  CHECK(chosen(four, std::string(nowhere6) + local6 + default6) == "eth0");
  CHECK(chosen("", default6) == "eth0");
  CHECK(chosen(four, std::string(local6) + nowhere6) == "");
  CHECK(chosen("", "00000000000000000000000000000000 00") == "");
}

TEST_CASE("an interface that is not there is refused with the names of those that are") {
  CHECK_THROWS_WITH_AS(apps::require_interface("no-such0"),
                       doctest::Contains("this machine has none of that name"), parallel::error);
  CHECK_NOTHROW(apps::require_interface("lo"));
}

}  // namespace interface_test
