// The bodies of the clip kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/clip.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_clip_test {

using namespace parallel;
using ops_support::number;
using parallel::index;

TEST_CASE_TEMPLATE("clip kernels: values are clamped and marked as inside, at any alignment", T,
                   float, bf16, double) {
  for (index const count : {0, 1, 3, 8, 37, 1000})
    for (float const limit : {0.0F, 0.5F}) {
      auto const size = static_cast<std::size_t>(count);
      auto x = ops_support::random<T>(count, 1);
      if (count > 4) {
        x[0] = number<T>(std::numeric_limits<double>::quiet_NaN());
        x[1] = number<T>(-std::numeric_limits<double>::infinity());
        x[2] = number<T>(limit);
        x[3] = number<T>(-0.0);
      }
      testing::compare_kernel(
          {},
          [&](auto& s, auto clamped, auto inside, auto dx, auto without_flags) {
            ops::clip(s, clamped, inside, limit);
            ops::clip_backward(s, dx, std::span<std::uint8_t const>(inside));
            ops::clip(s, without_flags, {}, limit);
          },
          x, std::vector<std::uint8_t>(size, 7), x, x);
    }
}

}  // namespace cuda_clip_test
