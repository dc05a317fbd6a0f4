// Numbers of numpy.random.default_rng (NumPy 2.3), see tests/reference/streams.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <mpt/data/numpy_random.hpp>
#include <mpt/data/scratch.hpp>
#include <set>
#include <vector>

TEST_CASE("the numbers are NumPy's") {
  {
    mpt::data::numpy_random r(0U);
    CHECK(r.next64() == 11749869230777074271U);
    CHECK(r.next64() == 4976686463289251617U);
  }
  {
    mpt::data::numpy_random r(1U);
    CHECK(r.next64() == 9441442522235856127U);
    CHECK(r.next64() == 17532960557476522086U);
  }
  {
    mpt::data::numpy_random r(9176U);
    CHECK(r.next64() == 14864287112915649284U);
    CHECK(r.next64() == 2538383001129672880U);
  }
  {
    mpt::data::numpy_random r(4294967295U);
    CHECK(r.next64() == 4647538520743280031U);
    CHECK(r.next64() == 4041050679407036418U);
  }
  {
    mpt::data::numpy_random r(4294967296U);
    CHECK(r.next64() == 16412783775159424549U);
    CHECK(r.next64() == 10277383025879800780U);
  }
  {
    mpt::data::numpy_random r(12345678901234567890U);
    CHECK(r.next64() == 77935276331132168U);
    CHECK(r.next64() == 12033622772062331548U);
  }
  {
    auto chosen = mpt::data::numpy_random(9176).choose(3, 1);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == std::vector<std::size_t>{2});
  }
  {
    auto chosen = mpt::data::numpy_random(9176).choose(5, 4);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == std::vector<std::size_t>{0, 1, 2, 3});
  }
  {
    auto chosen = mpt::data::numpy_random(17).choose(40, 11);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == std::vector<std::size_t>{1, 3, 5, 8, 13, 15, 18, 19, 22, 26, 27});
  }
  {
    auto chosen = mpt::data::numpy_random(5).choose(1, 1);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == std::vector<std::size_t>{0});
  }
  {
    auto chosen = mpt::data::numpy_random(0).choose(9, 9);
    std::sort(chosen.begin(), chosen.end());
    CHECK(chosen == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("what is chosen is different, within bounds, and each thing equally often") {
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
