// print_layouts: what `plan` says of the layouts of a run: a table of the best, the best of every
// kind with its reason, how long the run takes, and what the prediction depends on most.
#pragma once

#include <optional>
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

/// The days that the whole run takes; none where that needs its data, as with a duration in epochs.
[[nodiscard]] std::optional<double> days_of_run(candidate const& c);

/// Prints steps, days and device hours of the whole run, and what it costs where the cluster has
/// a price.
void print_duration(candidate const& best, parallel::cluster::cluster const& machines);

/// Prints by how much a step gets longer when one of the cluster's rates is a fifth lower, and its
/// time when all of them are a tenth better or worse.
void print_sensitivity(candidate const& best, parallel::cluster::cluster const& machines);

/// A predicted run as JSON.
[[nodiscard]] nlohmann::ordered_json json_of(candidate const& c);

}  // namespace apps
