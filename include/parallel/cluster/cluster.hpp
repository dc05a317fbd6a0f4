// cluster: the machines of a run as one value: nodes of equal devices, and the links between them.
#pragma once

#include <cstdint>
#include <string>

#include <parallel/cluster/failures.hpp>
#include <parallel/cluster/network.hpp>
#include <parallel/cluster/processor.hpp>
#include <parallel/cluster/program_costs.hpp>
#include <parallel/cluster/storage.hpp>
#include <parallel/core/error.hpp>

namespace parallel::cluster {

struct cluster {
  std::string name = {};
  int nodes = 1;
  int devices_on_node = 1;
  processor device = {};
  program_costs program = {};  ///< of the program that trains
  network links = {};
  storage disks = {};
  failures interruptions = {};
  /// By how much longer the slower of two ranks takes than both in the mean, from one exchange to
  /// the next
  double jitter = 0;
  std::uint64_t reserved_memory = 0;  ///< bytes of a device that programs and drivers take
  std::uint64_t host_memory = 0;      ///< bytes of a node's host; 0: not known
  double price = 0;                   ///< of a device for an hour; 0: not known

  [[nodiscard]] int devices() const { return nodes * devices_on_node; }
  /// Bytes of a device that a run may use.
  [[nodiscard]] std::uint64_t available_memory() const {
    return device.memory > reserved_memory ? device.memory - reserved_memory : 0;
  }
  /// Bytes of the host that a device's rank may use; 0: not known.
  [[nodiscard]] std::uint64_t host_memory_of_device() const {
    return host_memory / static_cast<std::uint64_t>(devices_on_node);
  }
  /// Seconds of an operation by the program that trains.
  [[nodiscard]] double seconds(operation_work const& work) const {
    double const factor = work.kind == operation_kind::memory    ? program.elements
                          : work.kind == operation_kind::product ? program.products
                                                                 : program.attention;
    return factor * device.seconds(work) + program.gap;
  }
  /// The place of groups of `ranks` that are `stride` ranks apart.
  [[nodiscard]] group_place place(int ranks, int stride) const {
    return place_of_group(ranks, stride, devices_on_node);
  }
};

}  // namespace parallel::cluster
