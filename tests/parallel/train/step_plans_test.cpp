// The plans that a stepper runs are proved first, and say what its units hold.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include <parallel/comm/threads/run.hpp>
#include <parallel/train/show_step.hpp>

#include "support/ring_run.hpp"

namespace step_plans_test {

TEST_CASE("step plans: a plan is proved with those of all ranks before it runs") {
  test::layout const how{.microbatch = 2, .pipeline = 2};
  parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
    test::ring_rank<> one(parallel::any_communicator(std::move(comm)), how);
    auto const count = static_cast<int>(one.data(0).batches().size());
    auto& plans = one.stepper().plans();
    CHECK(!plans.is_proved(count, parallel::pass::training));
    (void)one.step(0);
    CHECK(plans.is_proved(count, parallel::pass::training));
    CHECK(!plans.is_proved(count, parallel::pass::inference));
    auto const shown =
        parallel::train::text_of(plans.plans_of_all_ranks(count, parallel::pass::training)[1]);
    CHECK(shown.starts_with("pipeline rank 1 of 2, "));
  });
}

TEST_CASE("a plan knows the units of its rank, and those that others use too") {
  test::layout const how{.level = parallel::zero::level::optimizer, .microbatch = 2, .pipeline = 2};
  parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    test::ring_rank<> one(parallel::any_communicator(std::move(comm)), how);
    (void)one.step(0);
    auto const& units = one.stepper().plans().units();
    REQUIRE(units.size() == one.stepper().units().size());
    CHECK(units[0].name == "tokens");
    CHECK(units[0].tied);
    CHECK(units[0].parts.size() == 1);
    CHECK(units[1].number == (rank == 0 ? 1 : 3));
    for (std::size_t i = 0; i < units.size(); ++i)
      CHECK(units[i].gradient_bytes == one.stepper().units()[i].memory.gradient_bytes());
  });
}

}  // namespace step_plans_test
