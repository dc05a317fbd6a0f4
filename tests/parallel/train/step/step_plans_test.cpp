// The plans of a stepper are proved before they run, and describe its units.
#include <doctest/doctest.h>

#include <utility>

#include <parallel/comm/threads/run.hpp>
#include <parallel/train/step/show_step.hpp>

#include "support/ring/ring_run.hpp"

namespace step_plans_test {

TEST_CASE("step plans: a plan is proved with those of all ranks before it runs") {
  test::layout const run_layout{.microbatch = 2, .pipeline = 2};
  parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
    test::ring_rank<> trainer(parallel::any_communicator(std::move(comm)), run_layout);
    auto const count = static_cast<int>(trainer.data(0).batches().size());
    auto& plans = trainer.stepper().plans();
    CHECK(!plans.is_proved(count, parallel::pass::training));
    (void)trainer.step(0);
    CHECK(plans.is_proved(count, parallel::pass::training));
    CHECK(!plans.is_proved(count, parallel::pass::inference));
    auto const text =
        parallel::train::to_string(plans.plans_of_all_ranks(count, parallel::pass::training)[1]);
    CHECK(text.starts_with("pipeline rank 1 of 2, "));
  });
}

TEST_CASE("step plans: a plan knows the units of its rank, and which of them are tied") {
  test::layout const run_layout{
      .level = parallel::zero::level::optimizer, .microbatch = 2, .pipeline = 2};
  parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    test::ring_rank<> trainer(parallel::any_communicator(std::move(comm)), run_layout);
    (void)trainer.step(0);
    auto const& units = trainer.stepper().plans().units();
    REQUIRE(units.size() == trainer.stepper().units().size());
    CHECK(units[0].name == "tokens");
    CHECK(units[0].is_tied);
    CHECK(units[0].parts.size() == 1);
    CHECK(units[1].number == (rank == 0 ? 1 : 3));
    for (std::size_t i = 0; i < units.size(); ++i)
      CHECK(units[i].gradient_bytes == trainer.stepper().units()[i].memory.gradient_bytes());
  });
}

}  // namespace step_plans_test
