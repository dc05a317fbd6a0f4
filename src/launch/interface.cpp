#include <launch/interface.hpp>

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
  std::vector<std::string> usable;      // up, with an address; loopback interfaces last
  std::vector<std::string> local_only;  // up, with link-local addresses only
};

bool contains(std::vector<std::string> const& list, std::string const& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Whether this is an address in fe80::/10, which every interface assigns to itself. Such an
/// address is valid only together with the sender's name of the interface, so no other machine can
/// connect to it.
bool is_link_local(sockaddr const& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const&>(address).sin6_addr);
}

interface_list interfaces() {
  ifaddrs* first = nullptr;
  parallel::require(::getifaddrs(&first) == 0, "the machine's network interfaces cannot be listed");
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const list(first, &::freeifaddrs);
  interface_list out;
  std::vector<std::string> loopback;
  for (auto const* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    int const family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    auto& names = is_link_local(*entry->ifa_addr)          ? out.local_only
                  : (entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback
                                                           : out.usable;
    if (!contains(names, entry->ifa_name)) names.emplace_back(entry->ifa_name);
  }
  out.usable.insert(out.usable.end(), loopback.begin(), loopback.end());
  std::erase_if(out.local_only, [&](auto const& name) { return contains(out.usable, name); });
  return out;
}

bool is_loopback(std::string const& name) { return name == "lo"; }

}  // namespace

void require_interface(std::string const& name) {
  auto const available = interfaces();
  std::string names;
  for (auto const& interface : available.usable) names += (names.empty() ? "" : ", ") + interface;
  parallel::require(
      !contains(available.local_only, name), "--interface ", name,
      ": it has only a link-local address (fe80::), to which no other machine can "
      "connect; give it an IPv4 address or an IPv6 address that all machines reach, or "
      "name another interface; this machine has ",
      names);
  parallel::require(
      contains(available.usable, name), "--interface ", name,
      ": this machine has no interface of that name that is up and has an address; it "
      "has ",
      names);
}

std::string default_route_interface(std::istream& ip4, std::istream& ip6) {
  std::string line;
  while (std::getline(ip4, line)) {
    std::istringstream words(line);
    std::string name, destination;
    if (words >> name >> destination && destination == "00000000") return name;
  }
  while (std::getline(ip6, line)) {
    std::istringstream fields(line);
    std::string destination, bits, source, source_bits, gateway, metric, count, use, flags, name;
    // the system keeps default routes over lo for unreachable destinations
    if (fields >> destination >> bits >> source >> source_bits >> gateway >> metric >> count >>
            use >> flags >> name &&
        destination == std::string(32, '0') && bits == "00" && !is_loopback(name))
      return name;
  }
  return {};
}

std::string usual_interface() {
  std::ifstream ip4("/proc/net/route"), ip6("/proc/net/ipv6_route");
  auto const available = interfaces().usable;
  if (auto const name = default_route_interface(ip4, ip6); contains(available, name)) return name;
  parallel::require(!available.empty() && !is_loopback(available.front()),
                    "this machine has no network interface with an address that other machines can "
                    "reach; set one up, or name it: --interface");
  return available.front();
}

}  // namespace apps
