// The kernels of exact_squared_norm on the host, digit for digit against exact_sum itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <parallel/ops/cuda/kernels/exact_squared_norm.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_exact_squared_norm_test {

using namespace parallel;

/// Adds the squares of `x` to `out` by both kernels, as the launcher runs them, with `blocks`
/// blocks.
template <class T>
void sum_by_kernels(exact_sum& out, std::span<T const> x, unsigned blocks,
                    testing::thread_order order) {
  using namespace cuda::kernels;
  std::vector<std::int64_t> partial(blocks * exact_words, -1);
  testing::host_block::run_grid(blocks, 96, 96 * exact_words * sizeof(std::int64_t), order,
                                exact_squares_of_blocks<T>{partial.data(), x.data(), x.size()});
  testing::host_block::run_grid(1, 192, 2 * 192 * sizeof(std::int64_t), order,
                                add_exact_squares{&out, partial.data(), blocks});
}

template <class T>
void check_same_digits(std::span<T const> x) {
  exact_sum expected;
  expected.add(1.0 / 3.0);  // the previous value is added to
  for (T const v : x) expected.add(double(v) * double(v));
  using enum testing::thread_order;
  for (auto const order : {ascending, descending, shuffled})
    for (unsigned const blocks : {1U, 3U}) {
      exact_sum out;
      out.add(1.0 / 3.0);
      sum_by_kernels(out, x, blocks, order);
      CHECK(std::ranges::equal(out.digits(), expected.digits()));
      if (std::isnan(expected.special()))
        CHECK(std::isnan(out.special()));
      else
        CHECK(out.special() == expected.special());
    }
}

TEST_CASE_TEMPLATE(
    "exact_squared_norm kernels: the digits are those of exact_sum, for any alignment and block "
    "count",
    T, float, bf16, double) {
  auto x = testing::normal_numbers<T>(40001, 1);
  for (std::size_t i = 0; i < x.size(); ++i)  // of all magnitudes
    x[i] = T(float(x[i]) * std::ldexp(1.0F, static_cast<int>(i % 200) - 100));
  x[7] = T(0x1.fep127F);
  x[8] = T(std::numeric_limits<float>::denorm_min());
  x[9] = T(-0.0F);
  std::span<T const> const elements(x);
  check_same_digits(elements);
  check_same_digits(elements.subspan(1, 1000));
  check_same_digits(elements.subspan(0, 1));
  check_same_digits(elements.subspan(9, 1));
}

TEST_CASE("exact_squared_norm kernels: doubles whose squares are subnormal, vanish or overflow") {
  std::vector<double> const x = {0x1p-530, 0x1.123456789abcdp-520, 0x1p-600, 0x1p511};
  check_same_digits(std::span<double const>(x));
  std::vector<double> const overflowing = {1.0, 0x1p513, 2.0};
  check_same_digits(std::span<double const>(overflowing));
}

TEST_CASE("exact_squared_norm kernels: infinities and NaN are reported separately from sums") {
  auto x = testing::normal_numbers<float>(20000, 1);
  x[19000] = -std::numeric_limits<float>::infinity();
  check_same_digits(std::span<float const>(x));
  x[3] = std::numeric_limits<float>::quiet_NaN();
  check_same_digits(std::span<float const>(x));
}

}  // namespace cuda_exact_squared_norm_test
