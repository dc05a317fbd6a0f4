// network_link: the fastest connection to other machines that this one says it has.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <parallel/core/config.hpp>

namespace parallel {

struct network_link {
  std::string name;  // none: no connection says how fast it is
  double bytes_per_second = 0;
  bool infiniband = false;  // or RoCE: what the kernel lists with it
};

namespace detail {

/// Whether the network interface of that folder is a device, or made of one as bonds are (their
/// folders have links lower_NAME): the others, of containers and bridges between them, say a speed
/// that nothing has.
[[nodiscard]] inline bool is_of_a_device(std::filesystem::path const& interface, int levels = 4) {
  std::error_code missing;
  if (std::filesystem::exists(interface / "device", missing)) return true;
  if (levels == 0) return false;
  std::filesystem::directory_iterator at(interface, missing);
  for (std::filesystem::directory_iterator const end; at != end; at.increment(missing))
    if (at->path().filename().string().starts_with("lower_") &&
        is_of_a_device(at->path(), levels - 1))
      return true;
  return false;
}

}  // namespace detail

/// By what the kernel says below `system`: the ports of InfiniBand that are active, and else the
/// network interfaces that are up and of a device; `only` the interface of that name, where one is
/// known to be used.
[[nodiscard]] inline network_link fastest_link(std::filesystem::path const& system = "/sys",
                                               std::string const& only = {}) {
  namespace fs = std::filesystem;
  auto const line_of = [](fs::path const& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    return line;
  };
  auto const each = [](fs::path const& folder, auto&& f) {
    std::error_code missing;
    for (fs::directory_iterator at(folder, missing), end; at != end; at.increment(missing))
      f(at->path());
  };
  network_link best;
  // rates are numbers with words behind them: "200 Gb/sec (4X HDR)"
  auto const offer = [&](std::string name, std::string const& rate, double unit, bool infiniband) {
    double number = 0;
    if (std::sscanf(rate.c_str(), "%lf", &number) != 1) return;
    double const bytes = number * unit / 8;
    if (bytes > best.bytes_per_second) best = {std::move(name), bytes, infiniband};
  };
  each(system / "class/infiniband", [&](fs::path const& adapter) {
    if (!only.empty()) return;
    each(adapter / "ports", [&](fs::path const& port) {
      if (line_of(port / "state").find("ACTIVE") != std::string::npos)
        offer(adapter.filename().string(), line_of(port / "rate"), 1e9, true);
    });
  });
  if (best.infiniband) return best;
  each(system / "class/net", [&](fs::path const& interface) {
    if (!only.empty() && interface.filename() != only) return;
    if (line_of(interface / "operstate") == "up" && detail::is_of_a_device(interface))
      offer(interface.filename().string(), line_of(interface / "speed"), 1e6, false);
  });
  return best;
}

}  // namespace parallel
