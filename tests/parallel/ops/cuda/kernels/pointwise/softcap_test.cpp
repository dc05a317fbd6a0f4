// The bodies of the softcap kernels on the host, against the reference loops in double.
#include <doctest/doctest.h>

#include <limits>

#include <parallel/ops/cuda/kernels/pointwise/softcap.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_softcap_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE("softcap kernels: softcap and its gradient equal the reference at any alignment",
                   T, float, bf16, double) {
  using A = accumulate_t<T>;
  constexpr double rounding = ops_support::unit<A>;
  ops::softcap_options const options{.cap = 3.0, .scale = 0.7};
  for (index const count : {0, 1, 3, 8, 37, 1000}) {
    auto x = ops_support::random<A>(count, 1, 5.0);
    if (count > 3) {
      x[0] = std::numeric_limits<A>::quiet_NaN();
      x[1] = std::numeric_limits<A>::infinity();
    }
    testing::compare_kernel(
        {.relative = 8 * rounding}, [&](auto& s, auto y) { ops::softcap(s, y, y, options); }, x);
    reference::stream ref_stream;
    ops::softcap(ref_stream, std::span(x), std::span<A const>(x), options);
    // 1 - (y/cap)^2 has the rounding error of numbers of about 1; the result is then rounded to T
    testing::compare_kernel(
        {.relative = 2 * ops_support::unit<T>, .absolute = 16 * rounding},
        [&](auto& s, auto dx, auto y) {
          ops::softcap_backward(s, dx, std::span<A const>(y), std::span<T const>(dx), options);
        },
        ops_support::random<T>(count, 2), x);
  }
}

}  // namespace cuda_softcap_test
