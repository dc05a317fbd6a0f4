// All pipeline schedules, and their selection by the name in a configuration.
#pragma once

#include <algorithm>
#include <string_view>

#include <parallel/pipeline/schedules/dual_pipe_v.hpp>
#include <parallel/pipeline/schedules/forward_only.hpp>
#include <parallel/pipeline/schedules/gpipe.hpp>
#include <parallel/pipeline/schedules/interleaved.hpp>
#include <parallel/pipeline/schedules/one_f_one_b.hpp>
#include <parallel/pipeline/schedules/zb_h1.hpp>
#include <parallel/pipeline/schedules/zb_v.hpp>

namespace parallel::pipeline {

/// The schedule called `name`. Throws when there is no schedule of that name, or when it does not
/// support these numbers.
///
///     make_schedule("1f1b", 2, 3)  →  rank 0: F0 F1 B0 F2 B1 B2
///                                     rank 1: F0 B0 F1 B1 F2 B2
///
/// - `name`: gpipe, 1f1b, interleaved, zb-h1, zb-v or dual-pipe-v
/// - `ranks`: the number of ranks of the pipeline
/// - `microbatches`: the number of microbatches of a step, at least `least_microbatches`
/// - `stages_per_rank`: of interleaved only; the V schedules have 2, the others 1
template <class = void>
[[nodiscard]] schedule make_schedule(std::string_view name, int ranks, int microbatches,
                                     int stages_per_rank = 2) {
  if (name == "gpipe") return gpipe(ranks, microbatches);
  if (name == "1f1b") return one_f_one_b(ranks, microbatches);
  if (name == "interleaved") return interleaved(ranks, microbatches, stages_per_rank);
  if (name == "zb-h1") return zb_h1(ranks, microbatches);
  if (name == "zb-v") return zb_v(ranks, microbatches);
  if (name == "dual-pipe-v") return dual_pipe_v(ranks, microbatches);
  fail("no pipeline schedule is called '", name,
       "'; there are gpipe, 1f1b, interleaved, zb-h1, zb-v, dual-pipe-v");
}

/// The least number of microbatches, not less than `wanted`, that a schedule supports. A step with
/// fewer adds microbatches without rows. `least_microbatches("interleaved", 4, 6)` is 8.
[[nodiscard]] inline int least_microbatches(std::string_view name, int ranks, int wanted) {
  if (name == "interleaved") return (wanted + ranks - 1) / ranks * ranks;
  if (name == "zb-v") return std::max(wanted, ranks);
  if (name == "dual-pipe-v") return std::max(wanted, 2 * ranks);
  return wanted;
}

}  // namespace parallel::pipeline
