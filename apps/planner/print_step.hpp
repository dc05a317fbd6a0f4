// print_step: what `plan` says of a step of the best layout: memory by pipeline rank, what a rank
// sends and waits for, and a drawing of the pipeline.
#pragma once

#include <parallel/cluster/cluster.hpp>

#include <planner/best_layouts.hpp>

namespace apps {

/// Prints the memory of the ranks of the pipeline, the bytes that the busiest one sends over each
/// link, and for how much of a step it waits for exchanges along each axis.
void print_step(candidate const& c);

/// Draws a step of all ranks of the pipeline in 80 columns.
void draw_pipeline(candidate const& c, parallel::cluster::cluster const& machines);

}  // namespace apps
