// The bodies of the activation kernels on the host, against the reference loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>

#include "support/devices/kernel_stream.hpp"

namespace parallel::testing {

template <class T>
void run_operation(kernel_stream& s, ops::activation_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    using form = cuda::kernels::activated_value<T, decltype(kind)::value>;
    host_block::run_grid(2, 64, 0, s.order, cuda::kernel_of_form(form{}, a).body);
  });
}

template <class T>
void run_operation(kernel_stream& s, ops::activation_backward_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    using form = cuda::kernels::activation_gradient<T, decltype(kind)::value>;
    host_block::run_grid(2, 64, 0, s.order, cuda::kernel_of_form(form{}, a).body);
  });
}

}  // namespace parallel::testing

namespace activation_kernel_test {

using namespace parallel;

TEST_CASE_TEMPLATE("activation kernels: every activation equals the reference at any alignment", T,
                   float, bf16, double) {
  using enum ops::activation_kind;
  double const close = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, bf16> ? 1e-2 : 1e-6;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    for (std::size_t const count : {0U, 37U, 1000U}) {
      std::vector<T> x(count), dy(count);
      for (std::size_t i = 0; i < count; ++i) {
        x[i] = T((static_cast<float>(i % 97) - 48.0F) / 9.0F);
        dy[i] = T((static_cast<float>(i % 13) - 6.0F) / 5.0F);
      }
      testing::compare_kernel(
          {.relative = close, .absolute = close},
          [&](auto& s, auto y, auto dx, auto from) {
            ops::activation(s, y, from, kind);
            ops::activation_backward(s, dx, from, dx, kind);
          },
          x, dy, x);
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
