// This test generates docs/pipelines.md and compares the two. After a change, copy the file that
// the test writes to its working folder over docs/pipelines.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <parallel/pipeline/draw.hpp>
#include <parallel/pipeline/plan.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/checkout.hpp"

namespace schedules_page_test {
namespace {

using namespace parallel::pipeline;
using parallel::concat;

/// a / b with at most two decimals.
std::string quotient(int a, int b) {
  int const hundredths = (200 * a + b) / (2 * b);
  std::string out = std::to_string(hundredths / 100);
  if (hundredths % 100 == 0) return out;
  out += concat('.', hundredths % 100 / 10);
  return hundredths % 10 == 0 ? out : out + concat(hundredths % 10);
}

std::string row(schedule const& pipeline_schedule, std::string const& bubble,
                std::string const& takes) {
  auto const time = simulate(pipeline_schedule);
  REQUIRE(time.is_good());
  int const v = pipeline_schedule.stages_per_rank;
  int const work = 3 * pipeline_schedule.microbatches * v;
  std::string memory;
  int largest_peak = 0;
  for (auto const& chunk : lower(pipeline_schedule, 0).chunks)
    memory += concat(memory.empty() ? "" : " + ", chunk.slots);
  int sent = 0;
  for (plan const& rank_plan : lower(pipeline_schedule))
    for (step const& s : rank_plan.steps) sent += sends(s.kind) ? 1 : 0;
  for (int const peak : time.peak) largest_peak = std::max(largest_peak, peak);
  return concat(
      "| ", pipeline_schedule.name,
      v > 1 && pipeline_schedule.stage_placement == placement::loop ? concat(", v = ", v) : "",
      " | ", takes, " | ", bubble, " | ", quotient(time.makespan - work, v), " | ",
      quotient(100 * (time.makespan - work), time.makespan), " % | ", quotient(largest_peak, v),
      " | ", memory, " | ",
      quotient(sent, pipeline_schedule.ranks * pipeline_schedule.microbatches), " |\n");
}

std::string table(int p, int m) {
  return concat("### ", p, " ranks, ", m, " microbatches\n\n",
                "| schedule | takes | bubble | here | share | peak | slots of rank 0 | sent |\n",
                "|---|---|---|---|---|---|---|---|\n") +
         row(gpipe(p, m), "(p-1)(F+B)", "any m") + row(one_f_one_b(p, m), "(p-1)(F+B)", "any m") +
         row(interleaved(p, m, 2), "(p-1)(F+B)/v", "m a multiple of p") +
         row(interleaved(p, m, 4), "(p-1)(F+B)/v", "m a multiple of p") +
         row(zb_h1(p, m), "(p-1)(F+I-W)", "any m") + row(zb_v(p, m), "(p-1)F/2", "m ≥ p") +
         row(dual_pipe_v(p, m), "(p-1)F/2", "m ≥ 2p") + "\n";
}

std::string page() {
  std::string out =
      R"(# Pipeline schedules

A schedule is a value (`parallel/pipeline/schedule.hpp`): for every rank the list of its forward
passes (F), input gradients (I), weight gradients (W), or both together (B), at a stage and a
microbatch. `plan.hpp` lowers it to what one rank does, with messages and numbered memory. From that,
`parallel/train/step/lower_step.hpp` makes the list of a step's actions, `verify_step.hpp` proves the lists
of all ranks free of deadlock and races, and `run_step.hpp` runs any of them. The numbers and
drawings of this page are made by `tests/parallel/pipeline/schedules_page_test.cpp`.

```cpp
auto const schedule = pipeline::make_schedule("zb-h1", ranks, microbatches);  // throws with advice
auto const blocks = pipeline::assign_blocks(schedule, num_blocks);            // [begin, end) by stage
auto const tasks = pipeline::lower(schedule);                                 // of all ranks
// by rank: train::lower_step(tasks[rank], stages, units, choices), into plans
train::require_runs(plans);                                                   // before anything runs
pipeline::p2p_streams links(comm);                                            // once
auto const requests = train::run_step(plans[comm.rank()], streams, links, program);  // each step; returns at once
streams.compute.synchronize();
```

`train::stepper` does this for a model; `docs/examples/foreign_trainer.cpp` for arrays, without units.

In the tables below p is the number of ranks, m of microbatches, v of stages a rank. F, I and W of
all of a rank's blocks take one unit of time each, messages take none. *Bubble* is the time in which
a rank is idle, as a formula, in units (here) and as a share of the step. *Peak* is the largest
number of activations that a rank keeps, in units of all its blocks for one microbatch. *Slots* are
the memory of each stage, in microbatches (`plan.hpp`). *Sent* is the average number of activations
and gradients that a rank sends for each microbatch. The bubble of the V schedules is before the
first and after the last computation of a rank.

)";
  out += table(4, 8) + table(8, 32) +
         "## Drawings\n\n3 ranks, 6 microbatches. `svg_of` draws the same as a picture.\n\n```\n";
  for (auto const& s : {gpipe(3, 6), one_f_one_b(3, 6), interleaved(3, 6, 2), zb_h1(3, 6),
                        zb_v(3, 6), dual_pipe_v(3, 6)})
    out += to_string(s) + "\n";
  out.pop_back();
  return out + "```\n";
}

TEST_CASE("pipeline schedules: docs/pipelines.md has the current numbers") {
  auto const path = test::checkout() / "docs" / "pipelines.md";
  std::ifstream in(path, std::ios::binary);
  std::string const found((std::istreambuf_iterator<char>(in)), {});
  auto const text = page();
  auto const fresh = std::filesystem::current_path() / "pipelines.md";
  if (found != text) std::ofstream(fresh, std::ios::binary) << text;
  CHECK_MESSAGE(found == text, "docs/pipelines.md differs from ", fresh.string());
}

}  // namespace
}  // namespace schedules_page_test
