// row_sharing: how the rows of a task are divided among ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpt::icl {

/// The rank and number of ranks, which determine its rows, and the function that gathers results.
struct row_sharing {
  int rank = 0;
  int ranks = 1;
  /// Returns every rank's text, by rank, on every rank; required for more than one rank.
  std::function<std::vector<std::string>(std::string const&)> gather = {};
};

}  // namespace mpt::icl
