// print_run: what `plan` says of a whole run: its time by what it does, goodput and cost.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include <mpt/plan/run_duration.hpp>
#include <parallel/cluster/cluster.hpp>

#include <planner/best_layouts.hpp>

namespace apps {

/// The time of the whole run; none where its number of steps needs its data.
[[nodiscard]] std::optional<mpt::run_duration> duration_of(
    candidate const& c, parallel::cluster::cluster const& machines);

/// Prints steps, days, device hours and goodput of a run, its time by what it does, and its cost
/// where the cluster has a price; of none, what is missing.
void print_duration(std::optional<mpt::run_duration> const& run,
                    parallel::cluster::cluster const& machines);

/// The time of a run as JSON.
[[nodiscard]] nlohmann::ordered_json json_of(mpt::run_duration const& run,
                                             parallel::cluster::cluster const& machines);

}  // namespace apps
