// The record of a router against plain sums.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <parallel/ops/experts/record_routing.hpp>
#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace record_routing_test {

using namespace ops_support;
namespace ops = parallel::ops;

TEST_CASE("record_routing: choices, losses, entropy and lost choices are added to the record") {
  std::ptrdiff_t const rows = 6, experts = 3, sets = 2;
  auto const logits = random<double>(rows * experts, 1);
  auto const slopes = random<double>(sets * experts, 2);
  std::vector<double> const z_slopes{0.5, 0.25, 0.125};
  std::vector<std::int32_t> const chosen{0, 1, 0, 2, 0, 1, 1, 2, 0, 1, 0, 2}, lost{3, 4};
  std::vector<double> scores(logits.size());
  std::vector<double> expected{1, 2, 3, 0, 0, 0, 0, 0, 10};
  for (auto const expert : chosen) expected[static_cast<std::size_t>(expert)] += 1;
  for (std::ptrdiff_t m = 0; m < rows; ++m) {
    double total = 0;
    for (std::ptrdiff_t e = 0; e < experts; ++e)
      total += std::exp(logits[static_cast<std::size_t>(m * experts + e)]);
    for (std::ptrdiff_t e = 0; e < experts; ++e) {
      auto const i = static_cast<std::size_t>(m * experts + e);
      scores[i] = std::exp(logits[i]) / total;
      expected[3] += scores[i] * slopes[static_cast<std::size_t>(m / 3 * experts + e)];
      expected[5] -= scores[i] * std::log(scores[i]);
    }
    expected[4] += z_slopes[static_cast<std::size_t>(m / 2)] * std::pow(std::log(total), 2);
  }
  expected[6] = 3;
  expected[7] = 4;
  expected[8] += 6;
  auto const record_on = [&](auto& s) {
    std::vector<double> record{1, 2, 3, 0, 0, 0, 0, 0, 10};
    ops::record_routing(s, std::span(record), matrix(logits, rows), matrix(scores, rows),
                        matrix(chosen, rows), matrix(slopes, sets), vector(z_slopes), vector(lost));
    s.synchronize();
    return record;
  };
  parallel::reference::stream plain;
  auto const got = record_on(plain);
  CHECK(excess(got, expected, 1e-14) <= 0);
  parallel::host::stream host;
  CHECK(record_on(host) == got);
  CHECK(ops::has_overflowed(got, experts));
  CHECK(!ops::has_overflowed(std::vector<double>(18), experts));
}

}  // namespace record_routing_test
