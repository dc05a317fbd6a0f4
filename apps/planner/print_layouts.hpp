// print_layouts: what `plan` says of the layouts of a run: a table of the best, the best of every
// kind with its reason, and what the prediction depends on most.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/cluster/cluster.hpp>

#include <planner/best_layouts.hpp>

namespace apps {

/// What keeps the devices of a run from computing, in a few words: "waits 71 % for values of other
/// shards"; or how much they compute.
[[nodiscard]] std::string reason_of(mpt::prediction const& p);

/// The layout of a run and its microbatches, in a few words.
[[nodiscard]] std::string name_of_layout(candidate const& c);

/// Prints the ten fastest layouts, and the fastest of every kind.
void print_best(std::vector<candidate> const& found, parallel::cluster::cluster const& machines);

/// Prints by how much a step gets longer when one of the cluster's rates is a fifth lower, and its
/// time when all of them are a tenth better or worse.
void print_sensitivity(candidate const& best, parallel::cluster::cluster const& machines);

/// A predicted run as JSON.
[[nodiscard]] nlohmann::ordered_json json_of(candidate const& c);

}  // namespace apps
