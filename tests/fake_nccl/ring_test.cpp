// The exact layouts over NCCL's classes, a fake GPU each rank: integers modulo 2^64, so that every
// layout must equal one rank of the host bit for bit, at whatever pace streams run.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/ring_items_cuda.hpp"
#include "support/ring_matrix.hpp"

namespace fake_nccl_ring_test {

/// How the layout differs from one rank, or what failed.
std::string outcome_of(test::layout const& how, test::ring_references& references,
                       std::uint64_t seed, fake_nccl::options const& options = {},
                       bool loads_lazily = false) {
  int const ranks = how.shape().ranks();
  fake_cuda::restart(
      {.devices = ranks, .peers = false, .seed = seed, .loads_lazily = loads_lazily});
  fake_nccl::restart(options);
  try {
    auto const got = test::run_on(
        how, [&] { return fake_cuda::current_gpu({.graphs = seed % 2 == 0}); }, fake_nccl::ranks());
    auto const failures = fake_nccl::happened().failures;
    if (!failures.empty()) return failures.front();
    return test::difference(got, references.outcome_of(how));
  } catch (std::exception const& problem) {
    auto const failures = fake_nccl::happened().failures;
    return failures.empty() ? problem.what() : failures.front();
  }
}

std::vector<test::layout> layouts(std::size_t count) {
  std::vector<test::layout> all;
  for (auto const& how : test::all_layouts(4, 4))
    if (test::refusal(how).empty() && how.shape().ranks() > 1) all.push_back(how);
  return test::spread(all, count);
}

void check(std::size_t count) {
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& how : layouts(count)) {
    CAPTURE(seed);
    CHECK_MESSAGE(outcome_of(how, references, ++seed) == "", test::text(how));
    CHECK(fake_cuda::happened().failures.empty());
    CHECK(fake_nccl::alive() == 0);
  }
}

TEST_CASE("24 mixed layouts of 2 to 4 ranks") { check(24); }

/// Some of several stages, in plans that are for one queue or not.
std::vector<test::layout> pipelines(bool one_queue) {
  std::vector<test::layout> all;
  for (auto how : test::all_layouts(4, 4)) {
    how.one_queue = one_queue;
    if (test::refusal(how).empty() && how.shape().degree<parallel::axis::pipeline>() > 2)
      all.push_back(how);
  }
  return test::spread(all, 2);
}

TEST_CASE("launches that start in order need plans of one queue") {
  test::ring_references references;
  fake_nccl::options const in_order{.implicit_order = true, .patience = std::chrono::seconds(2)};
  for (auto const& how : pipelines(true))
    CHECK_MESSAGE(outcome_of(how, references, 1, in_order) == "", test::text(how));
  auto const others = outcome_of(pipelines(false).front(), references, 1, in_order);
  CHECK(others.find("ranks stand still") != std::string::npos);
}

TEST_CASE("kernels that are loaded when they are first launched need plans of one queue") {
  test::ring_references references;
  fake_nccl::options const soon{.patience = std::chrono::seconds(2)};
  for (auto const& how : pipelines(true))
    CHECK_MESSAGE(outcome_of(how, references, 1, soon, true) == "", test::text(how));
  auto const others = outcome_of(pipelines(false).front(), references, 1, soon, true);
  CHECK(others.find("ranks stand still") != std::string::npos);
}

TEST_CASE("stages between the first and the last are in no group of tied units") {
  test::layout how{.pipeline = 4};
  how.model.tied = true;
  how.model.blocks = 4;
  test::ring_references references;
  CHECK(outcome_of(how, references, 1) == "");
  auto made = fake_nccl::happened().of_size;
  made.erase(1);  // ranks that would be alone
  // the run's, the pipeline's; both ways between four pairs of neighbours, and one tie
  CHECK(made[2] == 9);
}

TEST_CASE("layouts see what the library does wrong") {
  test::ring_references references;
  auto const how = pipelines(false).front();
  for (auto const fault : {fake_nccl::fault::wrong_count, fake_nccl::fault::crossed_streams})
    CHECK(outcome_of(how, references, 1, {.patience = std::chrono::seconds(4), .fault = fault}) !=
          "");
}

TEST_CASE("[full] 150 mixed layouts of 2 to 4 ranks") { check(150); }

}  // namespace fake_nccl_ring_test
