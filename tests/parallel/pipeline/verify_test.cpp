// Every plan of every schedule, up to 8 ranks and 32 microbatches, is verified; and a plan with a
// deliberate flaw is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>
#include <parallel/pipeline/verify.hpp>

namespace verify_test {

using namespace parallel::pipeline;

constexpr plan_verdict verdict(schedule const& pipeline_schedule) {
  return verify(pipeline_schedule, lower(pipeline_schedule));
}

// Checked at compile time.
static_assert(verdict(gpipe(3, 4)).is_good());
static_assert(verdict(one_f_one_b(4, 8)).is_good());
static_assert(verdict(interleaved(2, 4, 2)).is_good());
static_assert(verdict(zb_h1(4, 8)).is_good());
static_assert(verdict(zb_v(3, 6)).is_good());
static_assert(verdict(dual_pipe_v(3, 6)).is_good());
static_assert(verdict(forward_only(3, 5)).is_good());

TEST_CASE(
    "plan verification: no plan of up to 8 ranks, 32 microbatches, 4 stages a rank deadlocks or "
    "races") {
  int checked = 0;
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 32; ++m) {
      auto const run = [&](schedule const& pipeline_schedule) {
        CAPTURE(std::string(pipeline_schedule.name));
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(pipeline_schedule.stages_per_rank);
        auto const result = verdict(pipeline_schedule);
        CHECK(result.problem == plan_flaw::none);
        ++checked;
      };
      run(gpipe(p, m));
      run(one_f_one_b(p, m));
      run(zb_h1(p, m));
      for (int v = 1; v <= 4; ++v) {
        if (m % p == 0) run(interleaved(p, m, v));
        run(forward_only(p, m, v));
      }
      if (m >= p) run(zb_v(p, m));
      if (m >= 2 * p) run(dual_pipe_v(p, m));
      run(forward_only(p, m, 2, placement::v));
    }
  MESSAGE(checked << " schedules");
}

std::vector<schedule> const samples = {
    gpipe(3, 4), one_f_one_b(3, 6), interleaved(2, 6, 2), interleaved(3, 6, 2),
    zb_h1(3, 6), zb_v(3, 7),        dual_pipe_v(2, 6),    forward_only(3, 6, 2)};

TEST_CASE("plan verification: a step without its dependencies is a race") {
  for (auto const& pipeline_schedule : samples) {
    CAPTURE(std::string(pipeline_schedule.name));
    auto const good = lower(pipeline_schedule);
    int races[3] = {};  // of computations, sends, receives
    for (std::size_t rank = 0; rank < good.size(); ++rank)
      for (std::size_t i = 0; i < good[rank].steps.size(); ++i) {
        step const& s = good[rank].steps[i];
        bool const needs_message =
            std::any_of(s.dependencies.begin(), s.dependencies.end(), [&](int other) {
              return receives(good[rank].steps[static_cast<std::size_t>(other)].kind);
            });
        auto bad = good;
        bad[rank].steps[i].dependencies.clear();
        auto const problem = verify(pipeline_schedule, bad).problem;
        CAPTURE(rank);
        CAPTURE(i);
        // with several stages another stage's message may already imply the dependency
        if (pipeline_schedule.stages_per_rank == 1 && (needs_message || sends(s.kind)))
          CHECK(problem == plan_flaw::race);
        else
          CHECK((problem == plan_flaw::race || problem == plan_flaw::none));
        if (problem == plan_flaw::race) ++races[receives(s.kind) ? 2 : sends(s.kind) ? 1 : 0];
      }
    CHECK(races[0] >= pipeline_schedule.microbatches);
    CHECK(races[1] >= pipeline_schedule.microbatches);
    if (pipeline_schedule.name != "gpipe")
      CHECK(races[2] > 0);  // gpipe has a boundary buffer for each microbatch
  }
}

TEST_CASE("plan verification: a message missing at one end is found") {
  for (auto const& pipeline_schedule : samples)
    for (std::size_t rank = 0; rank < 2; ++rank) {
      auto bad = lower(pipeline_schedule);
      auto& steps = bad[rank].steps;
      auto const last_message = std::find_if(steps.rbegin(), steps.rend(),
                                             [](step const& s) { return is_message(s.kind); });
      int const erased = static_cast<int>(steps.rend() - last_message) - 1;
      steps.erase(steps.begin() + erased);
      for (step& s : steps) {
        std::erase(s.dependencies, erased);
        for (int& other : s.dependencies) other -= other > erased ? 1 : 0;
      }
      CHECK_FALSE(verify(pipeline_schedule, bad).is_good());
    }
}

TEST_CASE("plan verification: different orders of a link's messages at its ends are found") {
  for (auto const& pipeline_schedule : samples) {
    auto const good = lower(pipeline_schedule);
    int count = 0;
    for (std::size_t rank = 0; rank < good.size(); ++rank)
      for (std::size_t i = 0; i < good[rank].steps.size(); ++i)
        for (std::size_t j = i + 1; j < good[rank].steps.size(); ++j) {
          auto const& a = good[rank].steps[i];
          auto const& b = good[rank].steps[j];
          if (!receives(a.kind) || a.kind != b.kind || a.peer != b.peer) continue;
          auto bad = good;
          std::swap(bad[rank].steps[i].task, bad[rank].steps[j].task);
          CHECK_FALSE(verify(pipeline_schedule, bad).is_good());
          ++count;
          break;
        }
    CHECK(count > 0);
  }
}

TEST_CASE("plan verification: a boundary buffer or slot too few is found") {
  // every microbatch task uses the memory of the first
  for (auto const& pipeline_schedule : samples) {
    auto bad = lower(pipeline_schedule);
    for (auto& p : bad)
      for (step& s : p.steps) s.task.slot = s.task.boundary = 0;
    auto const problem = verify(pipeline_schedule, bad).problem;
    CHECK((problem == plan_flaw::stale || problem == plan_flaw::race));
  }
}

TEST_CASE("plan verification: a broken plan is refused with its rank and step") {
  auto const pipeline_schedule = one_f_one_b(3, 6);
  auto plans = lower(pipeline_schedule);
  CHECK_NOTHROW(require_sound(pipeline_schedule, plans));
  auto& steps = plans[1].steps;
  auto const sent = std::ranges::find_if(steps, [](step const& s) { return sends(s.kind); });
  sent->dependencies.clear();
  CHECK_THROWS_WITH(require_sound(pipeline_schedule, plans),
                    parallel::concat("pipeline 1f1b of 3 ranks and 6 microbatches: the plan of "
                                     "rank 1 uses memory that an earlier step may still be using "
                                     "in step ",
                                     sent - steps.begin(), " of ", steps.size(),
                                     "; nothing has run; use another schedule, and please report "
                                     "it")
                        .c_str());
}

TEST_CASE("plan verification: ranks that wait for each other's messages are a deadlock") {
  // rank 0 sends the activation only after it has received the gradient, which depends on it
  auto plans = lower(gpipe(2, 1));
  auto& steps = plans[0].steps;
  REQUIRE(steps.size() == 4);
  REQUIRE(steps[1].kind == step_kind::send_activation);
  REQUIRE(steps[2].kind == step_kind::receive_gradient);
  CHECK(detail::rendezvous(plans).run().is_good());
  steps[1].dependencies = {2};
  CHECK(detail::rendezvous(plans).run().problem == plan_flaw::deadlock);
}

TEST_CASE("plan verification: a computation left out or repeated is found") {
  schedule const pipeline_schedule = one_f_one_b(2, 3);
  auto plans = lower(pipeline_schedule);
  plans[1].steps.push_back(plans[1].steps.back());
  for (step& s : plans[1].steps) s.kind = step_kind::compute;
  CHECK(verify(pipeline_schedule, plans).problem == plan_flaw::incomplete);
  plans[1].steps.clear();
  CHECK(verify(pipeline_schedule, plans).problem == plan_flaw::incomplete);
}

}  // namespace verify_test
