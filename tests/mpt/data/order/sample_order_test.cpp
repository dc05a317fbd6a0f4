#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mpt/data/order/sample_order.hpp>
#include <mpt/data/scratch.hpp>
#include <set>
#include <vector>

namespace sample_order_test {

using mpt::data::sample_order;
using mpt::data::sample_order_options;
using mpt::data::shuffle;
using counts = std::vector<std::uint64_t>;

inline counts listed(counts const& shards, sample_order_options options, std::uint64_t epoch) {
  sample_order const order(shards, options, epoch);
  counts out(order.size());
  for (std::uint64_t i = 0; i < out.size(); ++i) out[i] = order(i);
  return out;
}

inline bool is_permutation_of_all(counts order) {
  std::sort(order.begin(), order.end());
  for (std::uint64_t i = 0; i < order.size(); ++i)
    if (order[i] != i) return false;
  return true;
}

}  // namespace sample_order_test

TEST_CASE("sample order: any block size gives a permutation, which differs by epoch and seed") {
  using namespace sample_order_test;
  counts const shards{10, 0, 33, 1, 7, 20, 0};
  for (std::uint64_t const block : {0U, 1U, 2U, 3U, 10U, 70U, 71U, 1000U}) {
    auto const first = listed(shards, {.seed = 1, .block_size = block}, 0);
    CHECK(first.size() == 71);
    CHECK(is_permutation_of_all(first));
    CHECK(first == listed(shards, {.seed = 1, .block_size = block}, 0));
    CHECK(first != listed(shards, {.seed = 1, .block_size = block}, 1));
    CHECK(first != listed(shards, {.seed = 2, .block_size = block}, 0));
    CHECK(first != listed(shards, {.seed = 1 + (std::uint64_t{1} << 32), .block_size = block}, 0));
  }
}

TEST_CASE("sample order: without shuffling the order is that of the set") {
  using namespace sample_order_test;
  auto const order = listed({3, 0, 4}, {.mode = shuffle::none}, 5);
  CHECK(order == counts{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("sample order: the order is fixed, so that later versions resume with the same samples") {
  using namespace sample_order_test;
  CHECK(listed({4, 4, 4}, {.seed = 17, .block_size = 6}, 3) ==
        counts{9, 8, 2, 3, 1, 0, 6, 11, 5, 4, 10, 7});
  CHECK(mpt::data::permuted(123456, 1000003, 9176, 2, 5) == 328477);
}

TEST_CASE("permuted: every number of the range is visited, at every size") {
  for (std::uint64_t size = 1; size < 300; ++size) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(mpt::data::permuted(i, size, 3, 1, 4));
    REQUIRE(seen.size() == size);
    REQUIRE(*seen.rbegin() == size - 1);
  }
}

TEST_CASE("permuted: small permutations are equally frequent") {
  // All 24 orders of four samples over 24,000 seeds: chi-squared with 23 degrees of freedom is
  // below 60 unless something is wrong (p about 4e-5); the seeds are fixed.
  std::vector<int> seen(256);
  for (std::uint64_t seed = 0; seed < 24000; ++seed) {
    std::size_t code = 0;
    for (std::uint64_t i = 0; i < 4; ++i)
      code = code * 4 + static_cast<std::size_t>(mpt::data::permuted(i, 4, seed, 0, 0));
    ++seen[code];
  }
  double chi_squared = 0;
  int orders = 0;
  for (int const count : seen) {
    if (count == 0) continue;
    ++orders;
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  CHECK(orders == 24);
  CHECK(chi_squared < 60.0);
}

TEST_CASE("permuted: large permutations move neighbours far apart") {
  std::uint64_t const size = 100000;
  double distance = 0;
  for (std::uint64_t i = 0; i + 1 < 5000; ++i) {
    auto const a = static_cast<double>(mpt::data::permuted(i, size, 1, 2, 3));
    auto const b = static_cast<double>(mpt::data::permuted(i + 1, size, 1, 2, 3));
    distance += std::abs(a - b);
  }
  CHECK(distance / 4999 / static_cast<double>(size) == doctest::Approx(1.0 / 3).epsilon(0.03));
}

TEST_CASE("sample order: shards_in_block is the largest number of shards that a block touches") {
  using namespace sample_order_test;
  counts shards(50, 100);
  shards[7] = 3;
  for (std::uint64_t const block : {10U, 100U, 250U, 5000U}) {
    sample_order const order(shards, {.seed = 4, .block_size = block}, 1);
    std::size_t max_touched = 0;
    for (std::uint64_t start = 0; start < order.size(); start += block) {
      std::set<std::uint64_t> touched;
      for (auto i = start; i < std::min(start + block, order.size()); ++i) {
        auto sample = order(i);
        std::uint64_t shard = 0;
        while (sample >= shards[shard]) sample -= shards[shard++];
        touched.insert(shard);
      }
      max_touched = std::max(max_touched, touched.size());
    }
    CHECK(order.shards_in_block() == max_touched);
  }
}

TEST_CASE("sample order: positions beyond the epoch and absurd block sizes are refused") {
  using namespace sample_order_test;
  sample_order const order(counts{2, 3}, {}, 0);
  CHECK(data_test::contains(data_test::message_of([&] { (void)order(5); }),
                            "position 5 in an epoch of 5 samples"));
  CHECK(data_test::contains(data_test::message_of([] {
                              sample_order(counts{std::uint64_t{1} << 40}, {.block_size = 1}, 0);
                            }),
                            "shuffle_block_size 1 is too small"));
}
