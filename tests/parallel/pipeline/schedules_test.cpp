// Every schedule is complete and free of deadlock; makespan and peaks are those published.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <parallel/pipeline/plan.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>

namespace schedules_test {

using namespace parallel::pipeline;

// Checked at compile time.
static_assert(simulate(one_f_one_b(8, 32)).makespan == 117);
static_assert(simulate(zb_h1(4, 8)).makespan == 27);
static_assert(simulate(zb_v(4, 8)).is_good());
static_assert(lower(one_f_one_b(4, 8), 3).chunks[0].slots == 1);

struct expected {
  schedule pipeline_schedule;
  int makespan;  // F = I = W = 1 a stage
  std::vector<int> peak;
};

TEST_CASE("pipeline schedules: makespans and peaks of activations are those published") {
  std::vector<expected> const table = {
      {gpipe(4, 8), 33, {8, 8, 8, 8}},
      {one_f_one_b(4, 8), 33, {4, 3, 2, 1}},
      {interleaved(4, 8, 2), 57, {11, 9, 7, 5}},      // 28.5 of stages twice as long
      {interleaved(4, 8, 4), 105, {19, 17, 15, 13}},  // 26.25
      {zb_h1(4, 8), 27, {4, 4, 4, 4}},
      {zb_v(4, 8), 51, {8, 8, 8, 8}},         // 25.5
      {dual_pipe_v(4, 8), 51, {9, 9, 9, 9}},  // 25.5
      {gpipe(8, 32), 117, std::vector<int>(8, 32)},
      {one_f_one_b(8, 32), 117, {8, 7, 6, 5, 4, 3, 2, 1}},
      {interleaved(8, 32, 2), 213, {23, 21, 19, 17, 15, 13, 11, 9}},
      {interleaved(8, 32, 4), 405, {39, 37, 35, 33, 31, 29, 27, 25}},
      {zb_h1(8, 32), 103, std::vector<int>(8, 8)},
      {zb_v(8, 32), 199, std::vector<int>(8, 16)},
      {dual_pipe_v(8, 32), 199, std::vector<int>(8, 17)},
  };
  for (auto const& entry : table) {
    auto const& [pipeline_schedule, makespan, peak] = entry;
    CAPTURE(std::string(entry.pipeline_schedule.name));
    CAPTURE(entry.pipeline_schedule.ranks);
    auto const time = simulate(pipeline_schedule);
    REQUIRE(time.is_good());
    CHECK(time.makespan == makespan);
    CHECK(time.peak == peak);
  }
}

/// Idle time of a rank between its first and its last action.
int gaps(schedule const& s, timeline const& time, std::size_t rank) {
  int busy = 0;
  for (action const& a : s.by_rank[rank]) busy += costs{}.time_of(a.kind);
  int const last = costs{}.time_of(s.by_rank[rank].back().kind) + time.starts[rank].back();
  return last - time.starts[rank].front() - busy;
}

TEST_CASE(
    "pipeline schedules: all schedules of up to 8 ranks and 32 microbatches complete by their "
    "formulas") {
  int checked = 0;
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      auto const run = [&](schedule const& s) {
        auto const time = simulate(s);
        CHECK_MESSAGE(time.is_good(), std::string(s.name));
        ++checked;
        return time;
      };
      CHECK(run(gpipe(p, m)).makespan == (m + p - 1) * 3);
      auto const alternating = run(one_f_one_b(p, m));
      CHECK(alternating.makespan == (m + p - 1) * 3);
      for (int r = 0; r < p; ++r)
        CHECK(alternating.peak[static_cast<std::size_t>(r)] == std::min(p - r, m));
      auto const h1 = run(zb_h1(p, m));
      CHECK(*std::max_element(h1.peak.begin(), h1.peak.end()) <= p);
      if (m >= p) CHECK(h1.makespan == 3 * m + (p - 1));
      for (int v = 1; v <= 4 && m % p == 0; ++v) {
        auto const time = run(interleaved(p, m, v));
        CHECK(time.makespan == 3 * m * v + 3 * (p - 1));
        if (v == 1) CHECK(time.makespan == alternating.makespan);
        for (int r = 0; r < p; ++r)
          CHECK(time.peak[static_cast<std::size_t>(r)] <= 2 * (p - 1 - r) + (v - 1) * p + 1);
      }
      if (m >= p) {
        auto const s = zb_v(p, m);
        auto const time = run(s);
        CHECK(*std::max_element(time.peak.begin(), time.peak.end()) <= 2 * p);
        for (std::size_t r = 0; r < s.by_rank.size() && m >= 2 * p; ++r)
          CHECK(gaps(s, time, r) == 0);
      }
      if (m >= 2 * p) {
        auto const time = run(dual_pipe_v(p, m));
        CHECK(*std::max_element(time.peak.begin(), time.peak.end()) <= 2 * p + 1);
      }
    }
  MESSAGE(checked << " schedules");
}

TEST_CASE(
    "pipeline schedules: forward-only schedules complete in every placement, by their formulas") {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      for (int v = 1; v <= 4; ++v) {
        auto const time = simulate(forward_only(p, m, v));
        REQUIRE(time.is_good());
        if (v == 1 || m % p == 0) CHECK(time.makespan == m * v + p - 1);
      }
      auto const v_timeline = simulate(forward_only(p, m, 2, placement::v));
      REQUIRE(v_timeline.is_good());
      CHECK(v_timeline.makespan == 2 * (m + p - 1));
      CHECK(forward_only(zb_v(p, m + p), m).stage_placement == placement::v);
    }
  auto bad = forward_only(2, 2);
  bad.by_rank[0].push_back({action_kind::backward, 0, 0});
  CHECK(simulate(bad).problem == flaw::misplaced);
  bad = forward_only(2, 2);
  bad.by_rank[1].pop_back();
  CHECK(simulate(bad).problem == flaw::missing);
}

std::string refusal(auto&& make) {
  try {
    (void)make();
  } catch (parallel::error const& thrown) {
    return thrown.what();
  }
  return "accepted";
}

TEST_CASE("pipeline schedules: unsupported numbers are refused with possible ones") {
  CHECK(refusal([] { return make_schedule("interleaved", 4, 6); }) ==
        "interleaved: the number of microbatches must be a multiple of the 4 pipeline ranks, but "
        "is 6; the nearest above is 8");
  CHECK(refusal([] { return make_schedule("zb-v", 4, 3); }) ==
        "zb-v: needs at least as many microbatches as the 4 pipeline ranks, but there are 3");
  CHECK(refusal([] { return make_schedule("dual-pipe-v", 4, 7); }) ==
        "dual-pipe-v: needs at least 8 microbatches, two for each of the 4 pipeline ranks, but "
        "there are 7");
  CHECK(refusal([] { return make_schedule("1f1b", 0, 7); }) ==
        "1f1b: ranks, microbatches and stages per rank must be at least 1, but are 0, 7 and 1");
  CHECK(refusal([] { return make_schedule("2f2b", 4, 7); }) ==
        "no pipeline schedule is called '2f2b'; there are gpipe, 1f1b, interleaved, zb-h1, zb-v, "
        "dual-pipe-v");
  for (auto const name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    CHECK(make_schedule(name, 2, 4).name == name);
}

}  // namespace schedules_test
