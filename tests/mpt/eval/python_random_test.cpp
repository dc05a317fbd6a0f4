#include <doctest/doctest.h>

#include <mpt/eval/python_random.hpp>

#include "mpt/eval/icl_support.hpp"

namespace python_random_test {

using mpt::eval::python_random;
using mpt::eval::python_set;

TEST_CASE("Python's random and set: numbers, samples and iteration order equal CPython's") {
  // random.Random(1234): [r.randrange(1000) for _ in range(6)], then a seed of more than 32 bits
  python_random random(1234);
  std::vector<std::size_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(random.uniform(1000));
  CHECK(drawn == std::vector<std::size_t>{989, 796, 451, 119, 7, 92});
  python_random wide((std::uint64_t{1} << 40) + 5);
  CHECK(wide.sample(50, 4) == std::vector<std::size_t>{32, 33, 17, 42});

  python_set set;
  for (std::size_t const value : {1805, 478, 71, 969, 3, 2000, 12}) set.add(value);
  CHECK(set.values() == std::vector<std::size_t>{3, 71, 969, 12, 1805, 2000, 478});
  set.add(3);
  CHECK(set.size() == 7);
  set.remove(4);
  CHECK(set.size() == 7);
}

TEST_CASE("few-shot examples: the drawn rows and their order equal LLM Foundry's") {
  auto const golden = icl_test::load();
  std::size_t draws = 0;
  for (auto const& golden_case : golden.at("draws")) {
    python_random random(golden_case.at("seed").get<std::uint64_t>());
    std::size_t row = 0;
    for (auto const& expected : golden_case.at("draws")) {
      auto const examples =
          mpt::eval::draw_examples(golden_case.at("rows"), golden_case.at("shots"), row++, random);
      CHECK(examples == expected.get<std::vector<std::size_t>>());
      ++draws;
    }
  }
  CHECK(draws > 150);
}

TEST_CASE("Python's random: drawing more numbers than exist is refused") {
  python_random random(1);
  CHECK_THROWS_WITH(static_cast<void>(random.sample(3, 4)), "cannot draw 4 different numbers of 3");
  CHECK_THROWS_WITH(static_cast<void>(random.uniform(0)),
                    "cannot draw a number below 0; expected a size from 1 to 2^32 - 1");
}

}  // namespace python_random_test
