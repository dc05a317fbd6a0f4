// compare_layout: the layout of a run that begins, beside the best one that `plan` finds for its
// machines.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/train.hpp>

#include <inputs/hub_names.hpp>

namespace apps {

/// The machines of a run.
struct run_machines {
  std::string device{};  ///< as the run names it, such as "GPU 0, NVIDIA H100 80GB HBM3"
  int ranks = 1;
  int nodes = 1;
};

/// The text for read_cluster of the cluster that a run names, or of the machines that it is on
/// where it names none. Throws `error` where nothing is known of their devices.
[[nodiscard]] std::string cluster_of(mpt::run_config const& run, run_machines const& machines);

/// A line on the layout of a run on a cluster: by how much the best that `plan` finds is faster,
/// and its settings, where that is a fifth of a step or more. Cost: a search for layouts.
[[nodiscard]] std::string compare_layout(training_file& source,
                                         std::vector<std::string> const& overrides,
                                         std::string const& cluster, int ranks);

}  // namespace apps
