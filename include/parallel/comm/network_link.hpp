// network_link: the fastest connection to other machines that this one says it has.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace parallel {

struct network_link {
  std::string name;  // none: no connection says how fast it is
  double bytes_per_second = 0;
  bool infiniband = false;  // or RoCE: what the kernel lists with it
};

/// By what the kernel says below `system`: the ports of InfiniBand that are active, and else the
/// network interfaces that are up.
[[nodiscard]] inline network_link fastest_link(std::filesystem::path const& system = "/sys") {
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
    each(adapter / "ports", [&](fs::path const& port) {
      if (line_of(port / "state").find("ACTIVE") != std::string::npos)
        offer(adapter.filename().string(), line_of(port / "rate"), 1e9, true);
    });
  });
  if (best.infiniband) return best;
  each(system / "class/net", [&](fs::path const& interface) {
    if (line_of(interface / "operstate") == "up")
      offer(interface.filename().string(), line_of(interface / "speed"), 1e6, false);
  });
  return best;
}

}  // namespace parallel
