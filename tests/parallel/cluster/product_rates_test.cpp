#include <doctest/doctest.h>

#include <parallel/cluster/product_rates.hpp>

namespace product_rates_test {
namespace {

using namespace parallel::cluster;

TEST_CASE(
    "rates of products: full rounds of tiles reach the rate, and a partial round costs as much") {
  product_rates const rates(100, 4);
  // four tiles of 128 x 256 are one round; five are two
  double const one = rates.rate({128, 1024, 1 << 20});
  CHECK(one == doctest::Approx(100).epsilon(1e-3));
  CHECK(rates.rate({128, 1280, 256}) < 0.85 * rates.rate({128, 1024, 256}));
  CHECK(rates.rate({128, 1280, 1 << 20}) > 0.99 * one);  // long sums are divided among cores
  CHECK(rates.rate({1 << 15, 1 << 15, 1 << 15}) > 0.99 * one);
}

TEST_CASE("rates of products: a measured shape has its measured rate, and its neighbours near it") {
  product_rates const rates(100, 4, {{{4096, 4096, 4096}, 70}, {{512, 512, 512}, 30}});
  CHECK(rates.rate({4096, 4096, 4096}) == doctest::Approx(70).epsilon(1e-6));
  CHECK(rates.rate({512, 512, 512}) == doctest::Approx(30).epsilon(1e-6));
  double const near = rates.rate({4096, 4096, 4352});
  CHECK(near > 60);
  CHECK(near < 80);
}

TEST_CASE("rates of products: a side that is no multiple of 64 elements loses a quarter") {
  product_rates const rates(100, 4);
  double const aligned = rates.rate({4096, 4096, 4096});
  CHECK(rates.rate({4096, 4096, 4104}) == doctest::Approx(0.75 * aligned).epsilon(1e-2));
  CHECK(rates.rate({4096, 4104, 4096}) < 0.75 * aligned);
  CHECK(rates.rate({4104, 4096, 4096}) > 0.9 * aligned);  // rows begin where they did
}

TEST_CASE("rates of products: one rate for every shape where the processor has one unit") {
  CHECK(product_rates(5).rate({1, 7, 3}) == 5);
  CHECK_THROWS_WITH_AS(product_rates(0, 1),
                       "products of 0 operations a second on 1 cores: both must be above 0",
                       parallel::error);
}

}  // namespace
}  // namespace product_rates_test
