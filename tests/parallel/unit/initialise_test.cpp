#include <doctest/doctest.h>

#include <span>
#include <vector>

#include <parallel/unit/initialise.hpp>

namespace initialise_test {

using namespace parallel;

TEST_CASE("initial_values_by: the values do not depend on the number of threads") {
  for (initializer const& initial :
       {initializer(normal_init{0.02F}), initializer(uniform_init{-1, 3}),
        initializer(constant_init{2.5F})})
    for (std::size_t const count : {0U, 1U, 2U, 63U, 1000U}) {
      std::vector<float> expected(count);
      initial_values(std::span(expected), "wte", initial, 7, 12345);
      for (std::size_t const threads : {1U, 2U, 3U, 7U, 64U}) {
        CAPTURE(threads);
        CAPTURE(count);
        std::vector<float> got(count, -77.0F);
        initial_values_by(threads, std::span(got), "wte", initial, 7, 12345, 10);
        CHECK(got == expected);
      }
    }
}

TEST_CASE("usable_cores: at least one core is usable") { CHECK(usable_cores() >= 1); }

}  // namespace initialise_test
