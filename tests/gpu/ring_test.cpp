// The exact layouts with 1 to 8 ranks sharing a GPU: integers modulo 2^64, so every layout must
// equal one rank of the host bit for bit.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "support/gpu.hpp"
#include "support/ring_items_cuda.hpp"
#include "support/ring_matrix.hpp"

namespace gpu_ring_test {

/// `count` layouts of up to 8 ranks.
void check(std::size_t count) {
  std::vector<test::layout> all;
  for (auto const& how : test::all_layouts(8, 2))
    if (test::refusal(how).empty()) all.push_back(how);
  test::ring_references references;
  for (auto const& how : test::spread(all, count)) {
    auto const got = test::run_on(how, [] { return parallel::cuda::device(); });
    CHECK_MESSAGE(test::difference(got, references.outcome_of(how)) == "", test::text(how));
  }
}

TEST_CASE("ring model on a GPU: 24 mixed layouts equal a single rank") {
  if (test::has_gpu()) check(24);
}

TEST_CASE("[full] ring model on a GPU: 150 mixed layouts equal a single rank") {
  if (test::has_gpu()) check(150);
}

}  // namespace gpu_ring_test
