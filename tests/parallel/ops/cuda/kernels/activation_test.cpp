// The bodies of the activation kernels on the host, against the reference loops.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/ops/cuda/kernels/activation.hpp>
#include <parallel/ops/reference.hpp>

#include "support/host_block.hpp"

namespace activation_kernel_test {

using namespace parallel;

TEST_CASE_TEMPLATE("every activation equals the reference at any alignment", T, float, bf16,
                   double) {
  using enum ops::activation_kind;
  constexpr std::size_t most = 1000;
  std::vector<T> x(most + 8), dy(most + 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = T((static_cast<float>(i % 97) - 48.0F) / 9.0F);
    dy[i] = T((static_cast<float>(i % 13) - 6.0F) / 5.0F);
  }
  double const close = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, bf16> ? 1e-2 : 1e-6;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    for (std::size_t const begin : {0, 1})
      for (std::size_t const count : {std::size_t{0}, std::size_t{37}, most}) {
        std::span<T const> const from(x.data() + begin, count), slope(dy.data() + begin, count);
        std::vector<T> expected(count), expected_dx(count);
        reference::stream here;
        ops::activation(here, std::span<T>(expected), from, kind);
        ops::activation_backward(here, std::span<T>(expected_dx), from, slope, kind);
        std::vector<T> y(count + 8, T(-77.0F)), dx(count + 8, T(-77.0F));
        testing::run_in_every_order(
            2, 64, 0, cuda::kernels::activation<T>{y.data() + begin, from.data(), kind, count},
            [&](auto) {
              for (std::size_t i = 0; i < count; ++i)
                CHECK(static_cast<double>(y[begin + i]) ==
                      doctest::Approx(static_cast<double>(expected[i])).epsilon(close));
              CHECK(y[begin + count] == T(-77.0F));
            });
        testing::run_in_every_order(
            2, 64, 0,
            cuda::kernels::activation_backward<T>{dx.data() + begin, from.data(), slope.data(),
                                                  kind, count},
            [&](auto) {
              for (std::size_t i = 0; i < count; ++i)
                CHECK(static_cast<double>(dx[begin + i]) ==
                      doctest::Approx(static_cast<double>(expected_dx[i])).epsilon(close));
              CHECK(dx[begin + count] == T(-77.0F));
            });
      }
}

}  // namespace activation_kernel_test
