// The simulated time of step plans is that of the schedule, and the closed forms of its bubble.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>
#include <parallel/predict/draw_step.hpp>
#include <parallel/predict/simulate_step.hpp>
#include <parallel/train/step/lower_step.hpp>

#include "support/planned_steps.hpp"

namespace simulate_step_test {
namespace {

namespace pipeline = parallel::pipeline;
namespace predict = parallel::predict;
namespace train = parallel::train;

/// Plans without units whose stages are one block each.
std::vector<train::step_plan> plans_of(pipeline::schedule const& s) {
  std::vector<train::step_plan> out;
  for (int rank = 0; rank < s.ranks; ++rank) {
    std::vector<train::stage_range> stages;
    for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
      int const stage = s.stage_of(rank, chunk);
      stages.push_back({stage, stage + 1, stage == 0, stage == s.stages() - 1});
    }
    out.push_back(train::lower_step(pipeline::lower(s, rank), stages, {}, {}));
  }
  return out;
}

/// The seconds of a step whose blocks take 1 for each of F, I and W, and whose messages take
/// `transfer`.
double seconds_of(pipeline::schedule const& s, double transfer = 0) {
  auto const cost = [&](std::size_t, train::action const& a) -> predict::action_cost {
    if (a.is_message()) return {pipeline::receives(a.edge) ? 0 : transfer};
    bool const is_block = a.model_part >= 0 && a.model_part < s.stages();
    if (a.kind != train::action_kind::pass || !is_block) return {};
    return {a.pass == train::pass_kind::backward ? 2.0 : 1.0};
  };
  return predict::simulate_step(plans_of(s), cost).seconds;
}

TEST_CASE("simulated step: the bubbles of all schedules are their closed forms, exactly") {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 24; m += m < 8 ? 1 : 4) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(seconds_of(pipeline::gpipe(p, m)) == 3 * (m + p - 1));
      CHECK(seconds_of(pipeline::one_f_one_b(p, m)) == 3 * (m + p - 1));
      if (m >= p) CHECK(seconds_of(pipeline::zb_h1(p, m)) == 3 * m + (p - 1));
      for (int v = 2; v <= 4; ++v)
        if (m % p == 0)
          CHECK(seconds_of(pipeline::make_schedule("interleaved", p, m, v)) ==
                3 * m * v + 3 * (p - 1));
    }
}

TEST_CASE("simulated step: every schedule takes as long as the simulation of the schedule says") {
  for (std::string const name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    for (int p = 2; p <= 6; ++p)
      for (int const m : {p, 2 * p, 3 * p + 1}) {
        if (pipeline::least_microbatches(name, p, m) != m) continue;
        auto const s = pipeline::make_schedule(name, p, m, name == "interleaved" ? 2 : 1);
        CAPTURE(name);
        CAPTURE(p);
        CAPTURE(m);
        CHECK(seconds_of(s) == pipeline::simulate(s).makespan);
        // a message waits for the one before it on the same link, which the schedule's simulation
        // leaves out
        CHECK(seconds_of(s, 1) >= pipeline::simulate(s, {.transfer = 1}).makespan);
      }
}

TEST_CASE("simulated step: exchanges that share a connection run one after the other") {
  auto const plans = test::planned_step{.ranks = 1, .microbatches = 1, .zero = 3}.plans();
  double exchanges = 0;
  auto const cost = [&](int resource) {
    return [&, resource](std::size_t, train::action const& a) -> predict::action_cost {
      return {a.exchanges() ? 1.0 : 0.0, a.exchanges() ? resource : -1};
    };
  };
  for (auto const& a : plans.front().actions) exchanges += a.exchanges() ? 1 : 0;
  CHECK(predict::simulate_step(plans, cost(0)).seconds == exchanges);
  CHECK(predict::simulate_step(plans, cost(-1)).seconds < exchanges);
}

TEST_CASE(
    "simulated step: exchanges slow computations beside them down by what they demand of the "
    "processor") {
  // A rank with one pass of 4 seconds and, beside it, sends that each take 1 second alone.
  auto const plans = plans_of(pipeline::one_f_one_b(2, 2));
  auto const seconds_with = [&](double demand) {
    auto const cost = [&](std::size_t, train::action const& a) -> predict::action_cost {
      if (a.is_message() && !pipeline::receives(a.edge)) return {.seconds = 1, .demand = demand};
      bool const is_block = a.model_part == 0 || a.model_part == 1;
      if (a.kind != train::action_kind::pass || !is_block) return {};
      return {.seconds = 4, .demand = 1};
    };
    return predict::simulate_step(plans, cost).seconds;
  };
  // of the messages between the passes that decide, one runs beside another pass
  CHECK(seconds_with(0) == 26);
  CHECK(seconds_with(0.75) == 26.75);
  CHECK(seconds_with(0.5) == 26.5);
}

TEST_CASE("drawn step: 1F1B of two ranks and two microbatches, and its time in other columns") {
  auto const plans = plans_of(pipeline::one_f_one_b(2, 2));
  auto const cost = [&](std::size_t, train::action const& a) -> predict::action_cost {
    bool const is_block =
        a.kind == train::action_kind::pass && a.model_part >= 0 && a.model_part < 2;
    if (!is_block) return {};
    return {a.pass == train::pass_kind::forward ? 1.0 : 2.0};
  };
  auto const step = predict::simulate_step(plans, cost);
  REQUIRE(step.seconds == 9);
  CHECK(predict::draw_step(plans, step, 9) == std::vector<std::string>{"FF..BB.BB", ".FBBFBB.."});
  CHECK(predict::draw_step(plans, step, 18) ==
        std::vector<std::string>{"FFFF....BBBB..BBBB", "..FFBBBBFFBBBB...."});
}

}  // namespace
}  // namespace simulate_step_test
