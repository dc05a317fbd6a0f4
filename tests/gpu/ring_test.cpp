// The exact layouts with 1 to 8 ranks that share a GPU. The elements are integers modulo 2^64, so
// every layout must equal one rank of the host bit for bit.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "support/devices/gpu.hpp"
#include "support/ring/ring_items_cuda.hpp"
#include "support/ring/ring_matrix.hpp"

namespace gpu_ring_test {

/// Checks `count` layouts of up to 8 ranks.
void check(std::size_t count) {
  std::vector<test::layout> candidates;
  for (auto const& layout : test::all_layouts(8, 2))
    if (test::refusal(layout).empty()) candidates.push_back(layout);
  test::ring_references references;
  for (auto const& layout : test::spread(candidates, count)) {
    auto const got = test::run_on(layout, [] { return parallel::cuda::device(); });
    CHECK_MESSAGE(test::difference(got, references.outcome_of(layout)) == "", test::text(layout));
  }
}

TEST_CASE("ring model on a GPU: 24 mixed layouts equal a single rank") {
  if (test::has_gpu()) check(24);
}

TEST_CASE("[full] ring model on a GPU: 150 mixed layouts equal a single rank") {
  if (test::has_gpu()) check(150);
}

}  // namespace gpu_ring_test
