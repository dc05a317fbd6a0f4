// The bodies of the kernels of step_totals and gradient_scale on the host, against the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/update/step_results.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"

namespace cuda_step_results_test {

using namespace parallel;

using testing::host_block;
using testing::thread_order;

TEST_CASE_TEMPLATE("step_totals kernel: the microbatches are summed in order", L, double,
                   std::uint64_t) {
  std::vector<statistics<L>> microbatches;
  for (int i = 0; i < 5; ++i)
    microbatches.push_back({static_cast<L>(7 * i + 1) / static_cast<L>(3), 10 * i, i});
  L const squared = static_cast<L>(12345);
  reference::stream ref_stream;
  ops::step_sums<L> expected, got;
  ops::step_totals(ref_stream, &expected, std::span(microbatches), &squared);
  host_block::run_grid(
      1, 256, 0, thread_order::descending,
      cuda::kernels::step_totals<L>{&got, microbatches.data(), std::ssize(microbatches), &squared});
  CHECK(std::ranges::equal(got.values, expected.values));
}

TEST_CASE_TEMPLATE("gradient_scale kernel: the factor equals the reference's", A, float, double) {
  reference::stream ref_stream;
  for (double const threshold : {0.1, 1e9})
    for (double const tokens : {0.0, 7.0}) {
      ops::step_sums<double> const sums{{1, tokens, 2, 1600}};
      A expected = 0, got = 0;
      ops::gradient_scale(ref_stream, &expected, &sums, threshold);
      host_block::run_grid(1, 256, 0, thread_order::descending,
                           cuda::kernels::gradient_scale<A>{&got, &sums, threshold});
      CHECK(got == expected);
    }
}

}  // namespace cuda_step_results_test
