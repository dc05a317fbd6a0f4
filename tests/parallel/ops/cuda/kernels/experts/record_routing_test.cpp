// The record of a router as a kernel.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/cuda/kernels/experts/record_routing.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/host_block.hpp"

namespace cuda_record_routing_test {

using namespace parallel;
using parallel::index;

TEST_CASE("record_routing kernel: counts are the reference's, other sums to rounding") {
  constexpr index experts = 5, top_k = 2;
  for (index const rows : {1, 300}) {
    CAPTURE(rows);
    auto const logits = ops_support::random<float>(rows * experts, 1);
    auto scores = ops_support::random<float>(rows * experts, 2);
    for (auto& score : scores) score = score * score;
    auto const slopes = ops_support::random<float>(experts, 3);
    std::vector<float> const z_slopes{0.5F};
    auto const chosen = ops_support::random_ids(rows * top_k, experts, 4);
    std::vector<std::int32_t> const lost{2, 1};
    std::vector<double> expected(static_cast<std::size_t>(ops::routing_record_size(experts)), 1.0);
    auto const before = expected;
    auto got = before;
    ops::record_routing_arguments<float> const a{std::span(expected),
                                                 {logits.data(), {rows, experts}},
                                                 {scores.data(), {rows, experts}},
                                                 {chosen.data(), {rows, top_k}},
                                                 {slopes.data(), {1, experts}},
                                                 {z_slopes.data(), {1}},
                                                 {lost.data(), {2}}};
    a.compute();
    using kernel = cuda::kernels::record_routing<float>;
    testing::run_in_every_order(
        1, 64, kernel::shared_bytes,
        kernel{got.data(), a.rows(), chosen.data(), lost.data(), rows, rows * top_k}, [&](auto) {
          for (index e = 0; e < experts; ++e)
            CHECK(got[static_cast<std::size_t>(e)] == expected[static_cast<std::size_t>(e)]);
          CHECK(ops_support::excess(got, expected, 1e-12) <= 0);
          got = before;
        });
  }
}

}  // namespace cuda_record_routing_test
