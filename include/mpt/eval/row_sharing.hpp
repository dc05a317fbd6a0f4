// row_sharing: how the rows of a task are divided among ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpt::icl {

/// The number of a rank and of all ranks, which determine the rows of a task that the rank
/// computes, and the function that gathers the results.
struct row_sharing {
  int rank = 0;
  int ranks = 1;
  /// Returns every rank's text, by rank, on every rank; required for more than one rank.
  std::function<std::vector<std::string>(std::string const&)> gather = {};
};

}  // namespace mpt::icl
