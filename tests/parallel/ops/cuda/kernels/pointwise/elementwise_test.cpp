// The bodies of the element-wise kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/kernel_stream.hpp"

namespace cuda_elementwise_test {

using namespace parallel;
using parallel::index;
using testing::compare_kernel;

constexpr std::size_t sizes[] = {0, 1, 3, 8, 37, 1000};

/// Numbers; the first is NaN if the type has one.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
  auto out = ops_support::random<T>(static_cast<index>(count), seed, 3.0);
  if (!out.empty()) out[0] = ops_support::number<T>(std::numeric_limits<double>::quiet_NaN());
  return out;
}
template <>
std::vector<std::uint64_t> numbers(std::size_t count, std::uint64_t seed) {
  return ops_support::random<std::uint64_t>(static_cast<index>(count), seed);
}

TEST_CASE_TEMPLATE(
    "elementwise kernels: fill, add, multiply and scale equal the reference at any alignment", T,
    float, bf16, double, std::uint64_t) {
  for (auto const count : sizes)
    compare_kernel(
        {},
        [](auto& s, auto filled, auto sum, auto product, auto scaled, auto x) {
          ops::fill(s, filled, static_cast<T>(accumulate_t<T>(3)));
          ops::add(s, sum, x);
          ops::multiply(s, product, x);
          ops::scale(s, scaled, accumulate_t<T>(7) / accumulate_t<T>(2));
        },
        numbers<T>(count, 0), numbers<T>(count, 1), numbers<T>(count, 2), numbers<T>(count, 3),
        numbers<T>(count, 4));
}

/// Two element types.
template <class T, class U>
struct types {
  using to = T;
  using from = U;
};

TEST_CASE_TEMPLATE("elementwise kernels: axpby equals the reference at any alignment", Of,
                   types<float, float>, types<float, bf16>, types<bf16, float>, types<double, bf16>,
                   types<double, double>) {
  for (auto const count : sizes)
    compare_kernel(
        {}, [](auto& s, auto y, auto x) { ops::axpby(s, y, x, 0.3, -1.7); },
        numbers<typename Of::to>(count, 1), numbers<typename Of::from>(count, 2));
}

TEST_CASE_TEMPLATE("elementwise kernels: normalise equals the reference at any alignment", T, float,
                   bf16, double) {
  for (auto const count : sizes)
    for (double const squared : {2.0, 0.0})
      compare_kernel(
          {}, [&](auto& s, auto y) { ops::normalise(s, y, &squared, 0.3); }, numbers<T>(count, 1));
}

TEST_CASE("elementwise kernels: add and multiply accept the same array twice") {
  compare_kernel(
      {},
      [](auto& s, auto doubled, auto squared) {
        ops::add(s, doubled, doubled);
        ops::multiply(s, squared, squared);
      },
      numbers<float>(100, 3), numbers<float>(100, 3));
}

TEST_CASE_TEMPLATE("elementwise kernels: casts between widths equal the reference at any alignment",
                   From, float, bf16, double) {
  for (auto const count : sizes)
    compare_kernel(
        {},
        [](auto& s, auto to_float, auto to_bf16, auto to_double, auto x) {
          ops::cast(s, to_float, x);
          ops::cast(s, to_bf16, x);
          ops::cast(s, to_double, x);
        },
        numbers<float>(count, 5), numbers<bf16>(count, 6), numbers<double>(count, 7),
        numbers<From>(count, 4));
}

TEST_CASE_TEMPLATE(
    "copy_rows kernel: rows with gaps are copied, and elements between them are unchanged", T,
    float, bf16, double, std::uint64_t) {
  struct shape {
    index rows, columns, y_stride, x_stride;
  };
  for (auto const& shape :
       {shape{0, 8, 8, 8}, shape{3, 0, 8, 8}, shape{1, 1, 1, 1}, shape{5, 24, 24, 48},
        shape{5, 24, 32, 24}, shape{7, 5, 9, 6}, shape{3, 24, 25, 24}, shape{3, 1200, 1216, 1200},
        shape{2, 1201, 1203, 1202}})
    compare_kernel(
        {},
        [&](auto& s, std::span<T> y, std::span<T> x) {
          ops::copy(s, ops::rows_view<T>(y.data(), shape.rows, shape.columns, shape.y_stride),
                    ops::rows_view<T const>(x.data(), shape.rows, shape.columns, shape.x_stride));
        },
        numbers<T>(static_cast<std::size_t>(shape.rows * shape.y_stride), 7),
        numbers<T>(static_cast<std::size_t>(shape.rows * shape.x_stride), 6));
}

}  // namespace cuda_elementwise_test
