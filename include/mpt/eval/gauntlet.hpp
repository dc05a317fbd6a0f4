// The evaluation gauntlet: scores of categories, each of several benchmarks, and averages of them.
//
// The score of a benchmark is (accuracy - b) / (1 - b), where b is the accuracy of guessing. The
// score of a category is the weighted mean over its benchmarks; a category has no score if one of
// them was not run. An average is the mean of its categories that have a score, 0 where none has.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/data/gauntlet_config.hpp>
#include <mpt/eval/icl_run.hpp>

namespace mpt::eval {

struct gauntlet_result {
  std::vector<std::pair<std::string, double>> averages;
  std::vector<std::pair<std::string, double>> categories;
  /// Categories that have no score, and the first benchmark that each lacks.
  std::vector<std::pair<std::string, std::string>> missing;
};

/// The scores of a gauntlet from the results of the tasks that were run.
[[nodiscard]] gauntlet_result score_gauntlet(gauntlet_config const& config,
                                             std::span<task_result const> tasks);

}  // namespace mpt::eval
