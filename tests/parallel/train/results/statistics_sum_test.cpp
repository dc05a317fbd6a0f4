// Sums of losses and counts over microbatches and ranks.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/train/results/statistics_sum.hpp>

namespace statistics_sum_test {

namespace train = parallel::train;

template <class Loss>
std::vector<train::statistics<Loss>> microbatches() {
  parallel::philox const random(5, parallel::stream_id("losses"));
  std::vector<train::statistics<Loss>> out(29);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = {static_cast<Loss>(1000 + 300.1 * static_cast<double>(random.normal(i))),
              static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(i / 2)};
  return out;
}

/// The sums when `ranks` ranks take turns and each adds `at_once` of its microbatches at a time.
template <class Loss>
train::statistics<Loss> summed(int ranks, std::size_t at_once, bool exact) {
  auto const all_microbatches = microbatches<Loss>();
  std::vector<train::statistics<Loss>> sums_of_ranks(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::stream stream;
    std::vector<train::statistics<Loss>> own_share;
    auto const rank = static_cast<std::size_t>(comm.rank());
    for (std::size_t i = rank; i < all_microbatches.size(); i += static_cast<std::size_t>(ranks))
      own_share.push_back(all_microbatches[i]);
    train::statistics_sum<Loss> sum;
    for (std::size_t i = 0; i < own_share.size(); i += at_once)
      sum.add(
          std::span(std::as_const(own_share)).subspan(i, std::min(at_once, own_share.size() - i)));
    CHECK((sum.local().tokens > 0) == !own_share.empty());
    sums_of_ranks[rank] = sum.over_ranks(parallel::host::device(), comm, stream, exact);
  });
  for (auto const& one : sums_of_ranks) {
    CHECK(one.loss == sums_of_ranks[0].loss);
    CHECK(one.tokens == 29 * 30 / 2);
    CHECK(one.correct == 2 * (13 * 14 / 2) + 14);
  }
  return sums_of_ranks[0];
}

TEST_CASE("statistics sum: exact sums have the same bits for every distribution of microbatches") {
  std::set<double> exact, rounded;
  for (int const ranks : {1, 2, 3, 5, 31})
    for (std::size_t const at_once : {1U, 2U, 4U}) {
      exact.insert(summed<double>(ranks, at_once, true).loss);
      rounded.insert(summed<double>(ranks, at_once, false).loss);
    }
  CHECK(exact.size() == 1);
  CHECK(rounded.size() > 1);
  for (double const sum : rounded) CHECK(sum == doctest::Approx(*exact.begin()).epsilon(1e-12));
}

TEST_CASE("statistics sum: integers have equal sums, and values that are not finite stay so") {
  for (bool const exact : {false, true})
    CHECK(summed<std::uint64_t>(3, 2, exact).loss == summed<std::uint64_t>(1, 1, false).loss);
  parallel::threads::run(2, [](parallel::threads::communicator& comm) {
    parallel::host::stream stream;
    train::statistics_sum<double> sum;
    train::statistics<double> const one{
        comm.rank() == 0 ? 1.0 : std::numeric_limits<double>::infinity(), 1, 0};
    sum.add({&one, 1});
    CHECK(sum.over_ranks(parallel::host::device(), comm, stream, true).loss ==
          std::numeric_limits<double>::infinity());
  });
}

}  // namespace statistics_sum_test
