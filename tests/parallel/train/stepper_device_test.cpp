// Exact layouts where the host cannot reach the memory, as on a GPU that several ranks share.
#include <doctest/doctest.h>

#include <memory>

#include "support/guarded_device.hpp"
#include "support/ring_matrix.hpp"

namespace stepper_device_test {

TEST_CASE("24 mixed layouts on memory that the host cannot reach equal one rank of the host") {
  std::vector<test::layout> all;
  for (auto const& how : test::all_layouts(8, 1))
    if (test::refusal(how).empty()) all.push_back(how);
  test::ring_references references;
  for (auto const& how : test::spread(all, 24)) {
    auto const memory = std::make_shared<guarded::memory>(std::size_t{256} << 20);
    auto const got = test::run_on(how, [&] { return guarded::device(memory); });
    CHECK_MESSAGE(test::difference(got, references.outcome_of(how)) == "", test::text(how));
  }
}

}  // namespace stepper_device_test
