// idle_ranks: the share of the ranks' time for which a plan leaves them idle, and what to change.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/setup/run_plan.hpp>

namespace mpt {

/// The share of all data ranks' time for which the ranks with fewer sequences wait for the rank
/// with the most.
[[nodiscard]] double idle_share_of_data_ranks(data_config const& data, run_plan const& plan);

/// The share of the pipeline ranks' time for which they wait for each other, if all blocks and all
/// parts of a pass take the same time: the bubble of the schedule.
[[nodiscard]] double idle_share_of_pipeline(parallelism_config const& parallelism,
                                            run_plan const& plan);

/// A sentence for each way in which a plan leaves ranks idle for so much of the time that a change
/// pays.
[[nodiscard]] std::vector<std::string> notes_on_idle_ranks(data_config const& data,
                                                           execution_config const& execution,
                                                           run_plan const& plan);

}  // namespace mpt
