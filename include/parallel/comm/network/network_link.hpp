// network_link: the fastest connection to other machines that this machine reports.
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
  std::string name;  ///< empty: no connection reports its speed
  double bytes_per_second = 0;
  bool infiniband = false;  ///< or RoCE, which the kernel lists with InfiniBand
};

namespace detail {

/// Whether the network interface of that folder is a device, or is built on one as bonds are (their
/// folders have links lower_NAME). Other interfaces, of containers and bridges between them, report
/// a speed that no hardware has.
[[nodiscard]] inline bool belongs_to_device(std::filesystem::path const& interface,
                                            int levels = 4) {
  std::error_code missing;
  if (std::filesystem::exists(interface / "device", missing)) return true;
  if (levels == 0) return false;
  std::filesystem::directory_iterator entry(interface, missing);
  for (std::filesystem::directory_iterator const end; entry != end; entry.increment(missing))
    if (entry->path().filename().string().starts_with("lower_") &&
        belongs_to_device(entry->path(), levels - 1))
      return true;
  return false;
}

}  // namespace detail

/// Reads what the kernel reports below `system`: active InfiniBand ports, and without one the
/// network interfaces that are up and belong to a device. `only` restricts it to the interface of
/// that name, if the interface that is used is known.
[[nodiscard]] inline network_link fastest_link(std::filesystem::path const& system = "/sys",
                                               std::string const& interface_name = {}) {
  namespace fs = std::filesystem;
  auto const line_of = [](fs::path const& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    return line;
  };
  auto const for_each_entry = [](fs::path const& folder, auto&& f) {
    std::error_code missing;
    for (fs::directory_iterator entry(folder, missing), end; entry != end; entry.increment(missing))
      f(entry->path());
  };
  network_link best;
  // A rate is a number followed by words: "200 Gb/sec (4X HDR)".
  auto const keep_faster = [&](std::string name, std::string const& rate, double unit,
                               bool infiniband) {
    double number = 0;
    if (std::sscanf(rate.c_str(), "%lf", &number) != 1) return;
    double const bytes = number * unit / 8;
    if (bytes > best.bytes_per_second) best = {std::move(name), bytes, infiniband};
  };
  for_each_entry(system / "class/infiniband", [&](fs::path const& adapter) {
    if (!interface_name.empty()) return;
    for_each_entry(adapter / "ports", [&](fs::path const& port) {
      if (line_of(port / "state").find("ACTIVE") != std::string::npos)
        keep_faster(adapter.filename().string(), line_of(port / "rate"), 1e9, true);
    });
  });
  if (best.infiniband) return best;
  for_each_entry(system / "class/net", [&](fs::path const& interface) {
    if (!interface_name.empty() && interface.filename() != interface_name) return;
    if (line_of(interface / "operstate") == "up" && detail::belongs_to_device(interface))
      keep_faster(interface.filename().string(), line_of(interface / "speed"), 1e6, false);
  });
  return best;
}

}  // namespace parallel
