// failures: how often the nodes of a cluster fail, and how long a run needs until it computes.
#pragma once

#include <limits>

#include <parallel/core/config.hpp>

namespace parallel::cluster {

/// The default of `node_days` is that of Llama 3's pretraining: 419 unexpected interruptions in 54
/// days of 2 048 nodes (arXiv 2407.21783, section 3.3.4). Those of `start` and `restart` are
/// assumptions.
struct failures {
  double node_days = 264;  ///< mean days between two failures of one node; 0: nodes never fail
  double start = 60;  ///< seconds from the start of the programs to the first step, without loading
  double restart = 300;  ///< seconds from a failure to the start of the programs

  /// Mean seconds between two failures among `nodes` nodes; infinite if nodes never fail.
  [[nodiscard]] double interval(int nodes) const {
    return node_days > 0 ? 86400 * node_days / nodes : std::numeric_limits<double>::infinity();
  }
};

}  // namespace parallel::cluster
