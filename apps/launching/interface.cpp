#include "launching/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <parallel/core/error.hpp>

namespace apps {

namespace {

/// Those that are up and have an address; the machine's own last.
std::vector<std::string> interfaces() {
  ifaddrs* first = nullptr;
  parallel::require(::getifaddrs(&first) == 0, "the machine's network interfaces cannot be listed");
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const all(first, &::freeifaddrs);
  std::vector<std::string> out, own;
  for (auto const* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    int const family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    auto& list = (one->ifa_flags & IFF_LOOPBACK) != 0 ? own : out;
    if (std::find(list.begin(), list.end(), one->ifa_name) == list.end())
      list.emplace_back(one->ifa_name);
  }
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

bool is_loopback(std::string const& name) { return name == "lo"; }

}  // namespace

void require_interface(std::string const& name) {
  auto const all = interfaces();
  std::string names;
  for (auto const& one : all) names += (names.empty() ? "" : ", ") + one;
  parallel::require(std::find(all.begin(), all.end(), name) != all.end(), "--interface ", name,
                    ": this machine has none of that name that is up and has an address; it has ",
                    names);
}

std::string usual_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::string name, destination;
    if (words >> name >> destination && destination == "00000000") return name;
  }
  auto const all = interfaces();
  parallel::require(!all.empty() && !is_loopback(all.front()),
                    "this machine has no network interface with an address that other machines can "
                    "reach; set one up, or name it: --interface");
  return all.front();
}

}  // namespace apps
