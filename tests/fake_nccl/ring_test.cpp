// The exact layouts over NCCL's classes, with a fake GPU for each rank. The elements are integers
// modulo 2^64, so every layout must equal one rank of the host bit for bit, at any pace of the
// streams.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/ring/ring_items_cuda.hpp"
#include "support/ring/ring_matrix.hpp"

namespace fake_nccl_ring_test {

/// The difference of the layout from one rank, or the first failure; empty if there is neither.
std::string outcome_of(test::layout const& layout, test::ring_references& references,
                       std::uint64_t seed, fake_nccl::options const& options = {},
                       bool loads_lazily = false) {
  int const ranks = layout.shape().ranks();
  fake_cuda::restart(
      {.devices = ranks, .peers = false, .seed = seed, .loads_lazily = loads_lazily});
  fake_nccl::restart(options);
  try {
    auto const got = test::run_on(
        layout, [&] { return fake_cuda::current_gpu({.graphs = seed % 2 == 0}); },
        fake_nccl::ranks());
    auto const failures = fake_nccl::history().failures;
    if (!failures.empty()) return failures.front();
    return test::difference(got, references.outcome_of(layout));
  } catch (std::exception const& problem) {
    auto const failures = fake_nccl::history().failures;
    return failures.empty() ? problem.what() : failures.front();
  }
}

std::vector<test::layout> layouts(std::size_t count) {
  std::vector<test::layout> candidates;
  for (auto const& layout : test::all_layouts(4, 4))
    if (test::refusal(layout).empty() && layout.shape().ranks() > 1) candidates.push_back(layout);
  return test::spread(candidates, count);
}

void check(std::size_t count) {
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& layout : layouts(count)) {
    CAPTURE(seed);
    CHECK_MESSAGE(outcome_of(layout, references, ++seed) == "", test::text(layout));
    CHECK(fake_cuda::history().failures.empty());
    CHECK(fake_nccl::live_communicators() == 0);
  }
}

TEST_CASE("NCCL: 24 mixed layouts of 2 to 4 ranks equal one rank of the host") { check(24); }

/// Two layouts of more than two stages, whose plans are for one queue or for several.
std::vector<test::layout> pipelines(bool one_queue) {
  std::vector<test::layout> candidates;
  for (auto layout : test::all_layouts(4, 4)) {
    layout.one_queue = one_queue;
    if (test::refusal(layout).empty() && layout.shape().degree<parallel::axis::pipeline>() > 2)
      candidates.push_back(layout);
  }
  return test::spread(candidates, 2);
}

TEST_CASE("NCCL: with launches that start in order only plans for one queue do not deadlock") {
  test::ring_references references;
  fake_nccl::options const in_order{.implicit_order = true, .patience = std::chrono::seconds(2)};
  for (auto const& layout : pipelines(true))
    CHECK_MESSAGE(outcome_of(layout, references, 1, in_order) == "", test::text(layout));
  auto const other_plan = outcome_of(pipelines(false).front(), references, 1, in_order);
  CHECK(other_plan.find("ranks are stalled") != std::string::npos);
}

TEST_CASE("NCCL: with lazily loaded kernels only plans for one queue do not deadlock") {
  test::ring_references references;
  fake_nccl::options const short_patience{.patience = std::chrono::seconds(2)};
  for (auto const& layout : pipelines(true))
    CHECK_MESSAGE(outcome_of(layout, references, 1, short_patience, true) == "",
                  test::text(layout));
  auto const other_plan = outcome_of(pipelines(false).front(), references, 1, short_patience, true);
  CHECK(other_plan.find("ranks are stalled") != std::string::npos);
}

TEST_CASE("NCCL: middle stages are in no group of tied units") {
  test::layout layout{.pipeline = 4};
  layout.model.tied = true;
  layout.model.blocks = 4;
  test::ring_references references;
  CHECK(outcome_of(layout, references, 1) == "");
  auto communicators = fake_nccl::history().destroyed_by_size;
  communicators.erase(1);  // communicators of a single rank
  // two directions between each of four pairs of neighbours, and one group of tied units
  CHECK(communicators[2] == 9);
}

TEST_CASE("fake NCCL faults: the tests of layouts notice every fault") {
  test::ring_references references;
  auto const layout = pipelines(false).front();
  for (auto const fault : {fake_nccl::fault::wrong_count, fake_nccl::fault::crossed_streams})
    CHECK(outcome_of(layout, references, 1,
                     {.patience = std::chrono::seconds(4), .fault = fault}) != "");
}

TEST_CASE("[full] NCCL: 150 mixed layouts of 2 to 4 ranks equal one rank of the host") {
  check(150);
}

}  // namespace fake_nccl_ring_test
