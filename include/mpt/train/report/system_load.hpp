// system_load: the load of this machine: processors, memory and network, as Linux tells them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

/// Numbers by name.
using named_numbers = std::vector<std::pair<std::string, double>>;

class system_load {
 public:
  using instant = std::chrono::steady_clock::time_point;

  /// `files`: the folder of the system's files, which may be absent.
  explicit system_load(std::filesystem::path files = "/proc",
                       instant time = std::chrono::steady_clock::now());

  /// The means since the last call, or since construction: cpu_share (of all cores),
  /// network_received_bytes_per_sec, network_sent_bytes_per_sec (of all interfaces but the
  /// loopback); and memory_share, the part that is in use now. What the system does not tell is
  /// left out.
  [[nodiscard]] named_numbers read(instant time = std::chrono::steady_clock::now());

 private:
  /// Counts that only grow.
  struct counts {
    double busy_ticks = 0, ticks = 0;  // of all processors
    double received = 0, sent = 0;     // bytes
    bool has_network = false;
  };
  [[nodiscard]] counts read_counts() const;

  std::filesystem::path files_;
  instant time_;
  counts last_;
};

}  // namespace mpt
