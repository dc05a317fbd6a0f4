// median_share of two measurements that alternate, on a machine that slows down meanwhile.
#include <doctest/doctest.h>

#include <vector>

#include "../../bench/statistics.hpp"

TEST_CASE(
    "median_share: a machine that slows down does not change the share of alternating "
    "measurements") {
  std::vector<double> steps, products;
  for (double const slower : {1.0, 1.0, 1.5, 4.0, 4.0, 4.0, 2.0}) {
    steps.push_back(slower * 2.0);
    products.push_back(slower * 1.5);
  }
  CHECK(bench::median_share(products, steps) == 0.75);
  CHECK(products.back() / steps.front() == 1.5);  // what the last products and the best step say
  CHECK(bench::median({3, 1, 2}) == 2);
  CHECK(bench::median({4, 1, 3, 2}) == 3);
}
