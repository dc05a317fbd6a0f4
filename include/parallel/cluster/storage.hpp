// storage: the disks of a cluster, by the rates at which its nodes save and load checkpoints.
#pragma once

#include <algorithm>

#include <parallel/core/config.hpp>

namespace parallel::cluster {

/// Bytes a second.
struct disk_rates {
  double save = 0;
  double load = 0;
};

/// The defaults are assumptions: a file system in memory of its servers, over 25 to 200 Gb/s.
struct storage {
  disk_rates node = {2e9, 4e9};      ///< that one node reaches alone
  disk_rates shared = {20e9, 40e9};  ///< that all nodes reach together

  /// Seconds in which `nodes` nodes write an equal part of `bytes` each.
  [[nodiscard]] double save_seconds(double bytes, int nodes) const {
    return bytes / std::min(nodes * node.save, shared.save);
  }
  /// Seconds in which `nodes` nodes read an equal part of `bytes` each.
  [[nodiscard]] double load_seconds(double bytes, int nodes) const {
    return bytes / std::min(nodes * node.load, shared.load);
  }
};

}  // namespace parallel::cluster
