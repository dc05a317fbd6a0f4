// row_sharing: how the rows of a task are divided among ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpt::icl {

/// Which of the rows a rank takes, and how results meet.
struct row_sharing {
  int rank = 0;
  int ranks = 1;
  /// Every rank's text by rank, on every rank; needed for more than one.
  std::function<std::vector<std::string>(std::string const&)> gather = {};
};

}  // namespace mpt::icl
