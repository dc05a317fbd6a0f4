// The bodies of the softcap kernels on the host, against the reference loops in double.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/softcap.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_softcap_test {

using namespace parallel;
using parallel::index;

TEST_CASE_TEMPLATE("softcap kernels: softcap and its gradient equal the reference at any alignment",
                   T, float, bf16, double) {
  using A = accumulate_t<T>;
  ops::softcap_options const options{.cap = 3.0, .scale = 0.7};
  for (index const count : {0, 1, 3, 8, 37, 1000}) {
    auto const size = static_cast<std::size_t>(count);
    auto x = ops_support::random<A>(count, 1, 5.0);
    if (count > 3) {
      x[0] = std::numeric_limits<A>::quiet_NaN();
      x[1] = std::numeric_limits<A>::infinity();
    }
    auto y = x;
    reference::stream ref_stream;
    ops::softcap(ref_stream, std::span(y), std::span<A const>(x), options);
    testing::run_on_copies(
        x, 2, 64, 0,
        [&](A* to) {
          return cuda::kernels::softcap<A>{to, to, size, options};
        },
        [&](auto const& got) {
          CHECK(ops_support::excess(got, y, 8 * ops_support::unit<A>) <= 0.0);
        });

    auto const dy = ops_support::random<T>(count, 2);
    auto dx = dy;
    ops::softcap_backward(ref_stream, std::span(dx), std::span<A const>(y), std::span<T const>(dy),
                          options);
    testing::guarded<A> result(y, 0);
    testing::run_on_copies(
        dy, 2, 64, 0,
        [&](T* to) {
          return cuda::kernels::softcap_backward<T>{to, result.data(), to, size, options};
        },
        [&](auto const& got) {
          // 1 - (y/cap)^2 has the rounding error of numbers of about 1; the result is then rounded
          // to T
          CHECK(ops_support::excess(got, dx, 2 * ops_support::unit<T>) <=
                16 * ops_support::unit<A>);
        });
  }
}

}  // namespace cuda_softcap_test
