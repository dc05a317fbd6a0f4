#include "launching/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <istream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>

namespace apps {

namespace {

struct interface_list {
  std::vector<std::string> usable;      // up, with an address; the machine's own last
  std::vector<std::string> local_only;  // up, with none but link-local ones
};

bool contains(std::vector<std::string> const& list, std::string const& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// fe80::, which every interface gives itself, and which says nothing without the sender's name for
/// it: nobody can connect there.
bool is_link_local(sockaddr const& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const&>(address).sin6_addr);
}

interface_list interfaces() {
  ifaddrs* first = nullptr;
  parallel::require(::getifaddrs(&first) == 0, "the machine's network interfaces cannot be listed");
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const all(first, &::freeifaddrs);
  interface_list out;
  std::vector<std::string> own;
  for (auto const* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    int const family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    auto& list = is_link_local(*one->ifa_addr)          ? out.local_only
                 : (one->ifa_flags & IFF_LOOPBACK) != 0 ? own
                                                        : out.usable;
    if (!contains(list, one->ifa_name)) list.emplace_back(one->ifa_name);
  }
  out.usable.insert(out.usable.end(), own.begin(), own.end());
  std::erase_if(out.local_only, [&](auto const& name) { return contains(out.usable, name); });
  return out;
}

bool is_loopback(std::string const& name) { return name == "lo"; }

}  // namespace

void require_interface(std::string const& name) {
  auto const all = interfaces();
  std::string names;
  for (auto const& one : all.usable) names += (names.empty() ? "" : ", ") + one;
  parallel::require(!contains(all.local_only, name), "--interface ", name,
                    ": it has only a link-local address (fe80::), to which no other machine can "
                    "connect; give it one by IPv4, or one by IPv6 that all machines reach, or name "
                    "another; this machine has ",
                    names);
  parallel::require(contains(all.usable, name), "--interface ", name,
                    ": this machine has none of that name that is up and has an address; it has ",
                    names);
}

std::string interface_of_default_route(std::istream& ip4, std::istream& ip6) {
  std::string line;
  while (std::getline(ip4, line)) {
    std::istringstream words(line);
    std::string name, destination;
    if (words >> name >> destination && destination == "00000000") return name;
  }
  while (std::getline(ip6, line)) {
    std::istringstream fields(line);
    std::string destination, bits, source, source_bits, by, metric, count, use, flags, name;
    // the system keeps some by lo for what leads nowhere
    if (fields >> destination >> bits >> source >> source_bits >> by >> metric >> count >> use >>
            flags >> name &&
        destination == std::string(32, '0') && bits == "00" && !is_loopback(name))
      return name;
  }
  return {};
}

std::string usual_interface() {
  std::ifstream ip4("/proc/net/route"), ip6("/proc/net/ipv6_route");
  auto const all = interfaces().usable;
  if (auto const name = interface_of_default_route(ip4, ip6); contains(all, name)) return name;
  parallel::require(!all.empty() && !is_loopback(all.front()),
                    "this machine has no network interface with an address that other machines can "
                    "reach; set one up, or name it: --interface");
  return all.front();
}

}  // namespace apps
