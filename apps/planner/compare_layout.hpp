// compare_layout: the layout of a run that begins, beside the best one that `plan` finds for its
// machines.
#pragma once

#include <string>
#include <vector>

#include <inputs/hub_names.hpp>

namespace apps {

/// What plan=true and cluster=NAME ask of a training program.
struct layout_question {
  bool is_asked = false;
  std::string cluster{};  ///< "": the machines that the run is on
};

/// Takes plan=... and cluster=... out of overrides. Throws `error` for values that mean nothing.
[[nodiscard]] layout_question take_layout_question(std::vector<std::string>& overrides);

/// The machines of a run.
struct run_machines {
  std::string device{};  ///< as the run names it, such as "GPU 0, NVIDIA H100 80GB HBM3"
  int ranks = 1;
  int nodes = 1;
};

/// The text for read_cluster of the question's cluster, or of the machines of the run where it has
/// none. Throws `error` where nothing is known of their devices.
[[nodiscard]] std::string cluster_in_question(layout_question const& question,
                                              run_machines const& machines);

/// A line on the layout of a run on a cluster: by how much the best that `plan` finds is faster,
/// and its settings, where that is a fifth of a step or more. Cost: a search for layouts.
[[nodiscard]] std::string compare_layout(training_file& source,
                                         std::vector<std::string> const& overrides,
                                         std::string const& cluster, int ranks);

}  // namespace apps
