// The body of router_logits on the host: the reference's bits, so that both route alike.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/experts/router_logits.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_router_logits_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE("router_logits kernel: logits have the reference's bits, for any sizes", T,
                   float, bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  for (index const rows : {0, 1, 4, 9, 70})
    for (index const experts : {1, 4, 7, 33})
      for (index const width : {1, 7, 8, 40, 45}) {
        CAPTURE(rows);
        CAPTURE(experts);
        CAPTURE(width);
        testing::compare_kernel(
            {},
            [&](auto& s, auto logits, auto x, auto weight) {
              ops::router_logits(s, matrix_view<A>(logits.data(), {rows, experts}),
                                 matrix_view<T>(x.data(), {rows, width}),
                                 matrix_view<T>(weight.data(), {experts, width}));
            },
            ops_support::random<A>(rows * experts, 1), ops_support::random<T>(rows * width, 2),
            ops_support::random<T>(experts * width, 3));
      }
}

}  // namespace cuda_router_logits_test
