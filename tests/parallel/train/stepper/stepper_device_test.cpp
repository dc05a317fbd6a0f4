// Every layout is exact also on memory that the host cannot access, as on a GPU that several ranks
// share.
#include <doctest/doctest.h>

#include <memory>

#include "support/devices/guarded_device.hpp"
#include "support/ring/ring_matrix.hpp"

namespace stepper_device_test {

TEST_CASE(
    "stepper: 24 mixed layouts on memory that the host cannot reach equal one rank on the host") {
  std::vector<test::layout> layouts;
  for (auto const& run_layout : test::all_layouts(8, 1))
    if (test::refusal(run_layout).empty()) layouts.push_back(run_layout);
  test::ring_references references;
  for (auto const& run_layout : test::spread(layouts, 24)) {
    auto const memory = std::make_shared<guarded::memory>(std::size_t{256} << 20);
    auto const outcome = test::run_on(run_layout, [&] { return guarded::device(memory); });
    CHECK_MESSAGE(test::difference(outcome, references.outcome_of(run_layout)) == "",
                  test::text(run_layout));
  }
}

}  // namespace stepper_device_test
