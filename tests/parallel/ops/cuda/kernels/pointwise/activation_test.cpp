// The bodies of the activation kernels on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"

namespace activation_kernel_test {

using namespace parallel;

TEST_CASE_TEMPLATE("activation kernels: every activation equals the reference at any alignment", T,
                   float, bf16, double) {
  using enum ops::activation_kind;
  constexpr std::size_t max_count = 1000;
  std::vector<T> x(max_count + 8), dy(max_count + 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = T((static_cast<float>(i % 97) - 48.0F) / 9.0F);
    dy[i] = T((static_cast<float>(i % 13) - 6.0F) / 5.0F);
  }
  double const close = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, bf16> ? 1e-2 : 1e-6;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    for (std::size_t const begin : {0, 1})
      for (std::size_t const count : {std::size_t{0}, std::size_t{37}, max_count}) {
        std::span<T const> const from(x.data() + begin, count), slope(dy.data() + begin, count);
        std::vector<T> expected(count), expected_dx(count);
        reference::stream ref_stream;
        ops::activation(ref_stream, std::span<T>(expected), from, kind);
        ops::activation_backward(ref_stream, std::span<T>(expected_dx), from, slope, kind);
        std::vector<T> y(count + 8, T(-77.0F)), dx(count + 8, T(-77.0F));
        ops::visit_activation(kind, [&](auto chosen) {
          constexpr auto Kind = decltype(chosen)::value;
          testing::run_in_every_order(
              2, 64, 0, cuda::kernels::activation<T, Kind>{y.data() + begin, from.data(), count},
              [&](auto) {
                for (std::size_t i = 0; i < count; ++i)
                  CHECK(static_cast<double>(y[begin + i]) ==
                        doctest::Approx(static_cast<double>(expected[i])).epsilon(close));
                CHECK(y[begin + count] == T(-77.0F));
              });
          testing::run_in_every_order(
              2, 64, 0,
              cuda::kernels::activation_backward<T, Kind>{dx.data() + begin, from.data(),
                                                          slope.data(), count},
              [&](auto) {
                for (std::size_t i = 0; i < count; ++i)
                  CHECK(static_cast<double>(dx[begin + i]) ==
                        doctest::Approx(static_cast<double>(expected_dx[i])).epsilon(close));
                CHECK(dx[begin + count] == T(-77.0F));
              });
        });
      }
}

TEST_CASE(
    "activation kernels: gelu and its slope round to the nearest bf16 except near ties, for all "
    "inputs") {
  unsigned values = 0, slopes = 0, numbers = 0;  // results that were rounded the other way
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    float const x = std::bit_cast<float>(bits << 16);
    if (!(std::abs(x) < 1e30F)) continue;
    auto const exact = ops::detail::activate(ops::activation_kind::gelu, double{x});
    auto const [value, slope] = cuda::kernels::activate<ops::activation_kind::gelu, bf16>(x);
    auto const half = [](double y) {  // relative to the distance to the next bf16
      return std::exp2(std::max(std::ilogb(y), -126) - 8);
    };
    CHECK(std::abs(double{bf16(value)} - exact.value) <= 1.01 * half(exact.value) + 2e-38);
    // the slope is 0 between two bf16 numbers, near -0.75179
    CHECK(std::abs(double{bf16(slope)} - exact.slope) <= 1.01 * half(exact.slope) + 4e-7);
    auto const other = [](float a, double b) {
      return bf16(a) == bf16(static_cast<float>(b)) ? 0U : 1U;
    };
    values += std::abs(exact.value) > 2e-38 ? other(value, exact.value) : 0U;
    slopes += std::abs(exact.slope) > 2e-38 ? other(slope, exact.slope) : 0U;
    ++numbers;
  }
  CHECK(numbers > 50'000);
  CHECK(values < 40);
  CHECK(slopes < 40);
}

TEST_CASE("activation kernels: gelu keeps infinity and NaN") {
  using enum ops::activation_kind;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(cuda::kernels::activate<gelu, bf16>(infinity).value == infinity);
  CHECK(cuda::kernels::activate<gelu, bf16>(infinity).slope == 1.0F);
  CHECK(std::abs(cuda::kernels::activate<gelu, bf16>(-infinity).value) < 1e-37F);
  CHECK(std::isnan(cuda::kernels::activate<gelu, bf16>(NAN).value));
  CHECK(std::isnan(cuda::kernels::activate<gelu, bf16>(NAN).slope));
  CHECK(std::isnan(cuda::kernels::activate<gelu, float>(NAN).slope));
}

}  // namespace activation_kernel_test
