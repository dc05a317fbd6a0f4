// The bodies of the clip kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/clip.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_clip_test {

using namespace parallel;
using ops_support::number;
using ops_support::same_bits;
using parallel::index;
using testing::guarded;

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
      auto clamped = x;
      std::vector<std::uint8_t> flags(size, 7);
      reference::stream ref_stream;
      ops::clip(ref_stream, std::span(clamped), std::span(flags), limit);
      for (std::size_t const misaligned : {0, 1}) {
        guarded<std::uint8_t> inside(size, misaligned);
        testing::run_on_copies(
            x, 2, 64, 0,
            [&](T* to) {
              return cuda::kernels::clip<T>{to, inside.data(), size, limit};
            },
            [&](auto const& got) {
              CHECK(same_bits(got, clamped));
              CHECK(inside.values() == flags);
              CHECK(inside.intact());
            });

        auto dx = x;
        ops::clip_backward(ref_stream, std::span(dx), std::span<std::uint8_t const>(flags));
        testing::run_on_copies(
            x, 2, 64, 0,
            [&](T* to) {
              return cuda::kernels::clip_backward<T>{to, inside.data(), size};
            },
            [&](auto const& got) { CHECK(same_bits(got, dx)); });
      }
      testing::run_on_copies(
          x, 2, 64, 0,
          [&](T* to) {
            return cuda::kernels::clip<T>{to, nullptr, size, limit};
          },
          [&](auto const& got) { CHECK(same_bits(got, clamped)); });
    }
}

}  // namespace cuda_clip_test
