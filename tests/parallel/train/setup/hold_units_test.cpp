// The units planned on the meta device equal those that a stepper holds.
#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/setup/hold_units.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring/ring_run.hpp"

namespace hold_units_test {

namespace train = parallel::train;
namespace zero = parallel::zero;
using test::ring_model;
using test::vocabulary;

train::optimizer_groups<test::ring_momentum> const optimizer(test::ring_momentum{});

TEST_CASE(
    "hold units: with the canonical reduction order the planned memory equals the stepper's") {
  for (auto const level : test::all_levels)
    for (int const ranks : {1, 2}) {
      CAPTURE(static_cast<int>(level));
      CAPTURE(ranks);
      train::stepper_options const options{.level = level,
                                           .order = zero::reduction_order::canonical_tree};
      ring_model planned(3, 4, vocabulary);
      auto const plan =
          train::plan_units(planned, optimizer, zero::data_position(level, 0, ranks), options);
      parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
        parallel::host::device device;
        ring_model model(3, 4, vocabulary);
        train::stepper const step(model, device, comm, optimizer, options);
        CHECK(device.bytes() == plan.total());
      });
    }
}

TEST_CASE("hold units: a plan refuses the groups that a stepper refuses") {
  ring_model model(3, 4, vocabulary);
  train::optimizer_groups<test::ring_momentum> const groups_without_second(
      {{}}, [](std::string const&) { return parallel::segment_key{.group = 1}; });
  CHECK_THROWS_WITH(
      static_cast<void>(train::plan_units(model, groups_without_second, {}, {})),
      "unit tokens: a parameter is in optimizer group 1, but the number of groups is 1; groups are "
      "counted from 0");
}

}  // namespace hold_units_test
