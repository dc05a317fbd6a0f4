// run_layout: the mesh of a run, or one error that lists every broken rule: the axis, the rule, and
// the nearest degree that keeps it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/train.hpp>
#include <parallel/core/error.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/zero/level.hpp>

namespace mpt {

namespace axis = parallel::axis;
using parallel::training_layout;

namespace detail {

/// The degree nearest to `wanted` that fits; of two equally near ones the lower. Degree 1 always
/// fits.
template <class Fits>
[[nodiscard]] int nearest_degree(int wanted, Fits const& fits) {
  for (int distance = 1; distance < wanted; ++distance) {
    if (fits(wanted - distance)) return wanted - distance;
    if (fits(wanted + distance)) return wanted + distance;
  }
  return 1;
}

/// Joins words as in "a, b and c".
[[nodiscard]] std::string join_words(std::vector<std::string> const& words);

/// Adds a problem that names the rules a degree breaks and the nearest degree that breaks none.
template <class Broken>
void check_degree(std::vector<std::string>& problems, std::string_view name, int degree,
                  Broken const& broken) {
  auto const rules = broken(degree);
  if (rules.empty()) return;
  int const alternative =
      nearest_degree(degree, [&](int candidate) { return broken(candidate).empty(); });
  problems.push_back(parallel::concat(name, ' ', degree, ": ", join_words(rules), "; set ", name,
                                      " to ", alternative));
}

}  // namespace detail

/// Where a configuration has optimizer states.
[[nodiscard]] parallel::zero::optimizer_memory optimizer_memory_of(
    execution_config const& execution);

/// The ZeRO level of a configuration.
[[nodiscard]] parallel::zero::level level_of(execution_config const& execution);

/// The stepper options of a configuration; those that it leaves to the plan have the value that
/// needs the least memory.
[[nodiscard]] parallel::train::stepper_options stepper_options_of(optimizer_config const& optimizer,
                                                                  execution_config const& execution,
                                                                  run_config const& run);

/// The number of ranks that read different sequences.
[[nodiscard]] int data_ranks(training_layout const& layout);

/// Sets the shard degree that HYBRID_SHARD without a degree stands for: the data ranks on one
/// machine, which runs `node_ranks` of the `ranks`. Changes nothing where a degree is given.
void shard_within(parallelism_config& p, int ranks, int node_ranks);

/// The layout of a run on `ranks` ranks. The ranks are divided by the degrees of tensor, context
/// and pipeline; the quotient is the number of data ranks: shards from zero_stage 1 on (unless
/// `shard` or `replicate` says how many), else replicas. Throws one error that lists all problems,
/// before anything is started.
[[nodiscard]] training_layout run_layout(train_config const& config, int ranks);

}  // namespace mpt
