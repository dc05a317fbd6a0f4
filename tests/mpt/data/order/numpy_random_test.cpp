// Numbers of numpy.random.default_rng (NumPy 2.3), see tests/reference/streams.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mpt/data/order/numpy_random.hpp>
#include <mpt/data/scratch.hpp>
#include <set>
#include <vector>

TEST_CASE("numpy_random: the numbers equal NumPy's") {
  struct first_two {
    std::uint64_t seed, first, second;
  };
  for (auto const& e :
       std::vector<first_two>{{0U, 11749869230777074271U, 4976686463289251617U},
                              {1U, 9441442522235856127U, 17532960557476522086U},
                              {9176U, 14864287112915649284U, 2538383001129672880U},
                              {4294967295U, 4647538520743280031U, 4041050679407036418U},
                              {4294967296U, 16412783775159424549U, 10277383025879800780U},
                              {12345678901234567890U, 77935276331132168U, 12033622772062331548U}}) {
    CAPTURE(e.seed);
    mpt::data::numpy_random r(e.seed);
    CHECK(r.next64() == e.first);
    CHECK(r.next64() == e.second);
  }
}

TEST_CASE("numpy_random: choose draws what NumPy's Generator.choice draws") {
  struct choice {
    std::uint64_t seed;
    std::size_t size, count;
    std::vector<std::size_t> sorted;
  };
  for (auto const& e : std::vector<choice>{{9176, 3, 1, {2}},
                                           {9176, 5, 4, {0, 1, 2, 3}},
                                           {17, 40, 11, {1, 3, 5, 8, 13, 15, 18, 19, 22, 26, 27}},
                                           {5, 1, 1, {0}},
                                           {0, 9, 9, {0, 1, 2, 3, 4, 5, 6, 7, 8}}}) {
    CAPTURE(e.seed);
    auto chosen = mpt::data::numpy_random(e.seed).choose(e.size, e.count);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == e.sorted);
  }
}

TEST_CASE("numpy_random: chosen numbers are different, within bounds and equally frequent") {
  std::vector<int> times(7, 0);
  for (std::uint64_t seed = 0; seed < 7000; ++seed) {
    auto const chosen = mpt::data::numpy_random(seed).choose(7, 3);
    CHECK(std::set<std::size_t>(chosen.begin(), chosen.end()).size() == 3);
    for (auto const i : chosen) ++times.at(i);
  }
  for (int const t : times) CHECK(std::abs(t - 3000) < 5 * 42);  // five standard deviations
  CHECK(mpt::data::numpy_random(1).choose(4, 0).empty());
  CHECK(data_test::contains(
      data_test::message_of([] { (void)mpt::data::numpy_random(1).choose(2, 3); }),
      "cannot choose 3 of 2"));
}
