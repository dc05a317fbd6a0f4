// Element-wise operations: exact on every device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace elementwise_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

TEST_CASE_TEMPLATE(
    "elementwise: fill, copy, add, multiply and scale on the host equal the reference bit for bit",
    T, float, bf16, double, std::uint64_t) {
  for (auto const size : odd_sizes) {
    CAPTURE(size);
    compare_host(
        {},
        [](auto& s, auto filled, auto copied, auto y, auto x) {
          ops::fill(s, filled, number<T>(3.0));
          ops::copy(s, copied, x);
          ops::add(s, y, x);
          ops::multiply(s, y, x);
          ops::scale(s, y, accumulate_t<T>(7));
        },
        random<T>(size, 1), random<T>(size, 2), random<T>(size, 3), random<T>(size, 4));
  }
  std::vector<T> y(3);
  auto const x = random<T>(3, 1);
  on_reference([&](auto& s) { ops::copy(s, std::span(y), std::span(x)); });
  CHECK(same_bits(y, x));
}

TEST_CASE_TEMPLATE("copy: rows with gaps are copied, and nothing between them", T, float, bf16,
                   double, std::uint64_t) {
  auto const from = random<T>(300 * 90, 6);
  for (int const threads : {0, 1, 2}) {
    auto to = random<T>(300 * 80, 7);
    auto const initial = to;
    ops::rows_view<T> const y(to.data() + 3, 300, 70, 80);
    ops::rows_view<T const> const x(from.data() + 9, 300, 70, 90);
    if (threads == 0)
      on_reference([&](auto& s) { ops::copy(s, y, x); });
    else
      on_host(threads, [&](auto& s) { ops::copy(s, y, x); });
    bool right = true;
    for (std::size_t r = 0; r < 300; ++r)
      for (std::size_t i = 0; i < 80; ++i)
        right = right &&
                to[r * 80 + i] == (i >= 3 && i < 73 ? from[r * 90 + i + 6] : initial[r * 80 + i]);
    CHECK(right);
  }
}

TEST_CASE("elementwise: addition and multiplication of 64-bit integers wrap around") {
  std::vector<std::uint64_t> y{~0ULL, 1ULL << 63};
  std::vector<std::uint64_t> const x{2, 2};
  on_host(1, [&](auto& s) { ops::add(s, std::span(y), std::span(x)); });
  CHECK(y == std::vector<std::uint64_t>{1, (1ULL << 63) + 2});
  on_host(1, [&](auto& s) { ops::multiply(s, std::span(y), std::span(x)); });
  CHECK(y == std::vector<std::uint64_t>{2, 4});
}

template <class T, class U>
void check_axpby() {
  using S = std::common_type_t<accumulate_t<T>, accumulate_t<U>>;
  for (auto const size : odd_sizes) {
    auto const x = random<U>(size, 3);
    auto const y = random<T>(size, 4);
    for (int const threads : {0, 1, 2}) {
      auto got = y;
      auto const run = [&](auto& s) { ops::axpby(s, std::span(got), std::span(x), -0.75, 3.0); };
      if (threads == 0)
        on_reference(run);
      else
        on_host(threads, run);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double const a = -0.75 * double(S(x[i])), b = 3.0 * double(S(y[i]));
        double const bound = unit<T> * std::abs(a + b) + 2 * unit<S> * (std::abs(a) + std::abs(b));
        CHECK(std::abs(double(accumulate_t<T>(got[i])) - (a + b)) <= bound);
      }
    }
  }
}

TEST_CASE("axpby: multiples of two arrays, which may differ in width, are added and rounded once") {
  check_axpby<float, float>();
  check_axpby<float, bf16>();
  check_axpby<bf16, float>();
  check_axpby<double, bf16>();
  check_axpby<double, double>();
  // 1 + 2^-8 rounds to 1 in bf16: if the first sum were rounded, the last addend would be lost
  std::vector<bf16> y(1, bf16(1.0F));
  std::vector<float> const x(1, 0.00390625F + 0.0009765625F);
  on_host(1, [&](auto& s) { ops::axpby(s, std::span(y), std::span(x), 1.0, 1.0); });
  CHECK(float(y[0]) == 1.0078125F);
}

TEST_CASE_TEMPLATE("normalise: the divisor is the norm, rounded to T, but at least min_norm", T,
                   float, bf16, double) {
  for (auto const size : odd_sizes) {
    auto const y = random<T>(size, 5);
    for (double const squared : {2.0, 0.0}) {
      auto const divisor = number<T>(squared == 0 ? 0.3 : std::sqrt(2.0));
      auto a = y, b = y, expected = y;
      for (T& v : expected) v = static_cast<T>(accumulate_t<T>(v) / accumulate_t<T>(divisor));
      on_reference([&](auto& s) { ops::normalise(s, std::span(a), &squared, 0.3); });
      on_host(2, [&](auto& s) { ops::normalise(s, std::span(b), &squared, 0.3); });
      CHECK(same_bits(a, expected));
      CHECK(same_bits(b, expected));
    }
  }
}

template <class To, class From>
void check_cast() {
  for (auto const size : odd_sizes) {
    auto const x = random<From>(size, 3);
    std::vector<To> a(x.size()), b(x.size());
    on_reference([&](auto& s) { ops::cast(s, std::span(a), std::span(x)); });
    on_host(2, [&](auto& s) { ops::cast(s, std::span(b), std::span(x)); });
    CHECK(same_bits(a, b));
    CHECK(excess(a, x, std::max(unit<To>, 0.0)) == 0.0);
  }
}

TEST_CASE("cast: numbers are rounded to nearest between any two of float, bf16 and double") {
  check_cast<float, float>();
  check_cast<float, bf16>();
  check_cast<float, double>();
  check_cast<bf16, float>();
  check_cast<bf16, bf16>();
  check_cast<bf16, double>();
  check_cast<double, float>();
  check_cast<double, bf16>();
  check_cast<double, double>();
}

TEST_CASE("cast: NaN and infinity are kept") {
  float const infinity = std::numeric_limits<float>::infinity();
  std::vector<float> const x(17, std::numeric_limits<float>::quiet_NaN());
  std::vector<bf16> y(17);
  on_host(1, [&](auto& s) { ops::cast(s, std::span(y), std::span(x)); });
  for (bf16 const element : y) CHECK(std::isnan(float(element)));
  std::vector<float> const huge{infinity, -infinity, 3.4e38F};
  y.resize(3);
  on_host(1, [&](auto& s) { ops::cast(s, std::span(y), std::span(huge)); });
  CHECK(float(y[0]) == infinity);
  CHECK(float(y[1]) == -infinity);
  CHECK(float(y[2]) == infinity);  // beyond the greatest bf16
}

TEST_CASE("elementwise: sizes that differ are refused at the call, also on the meta device") {
  parallel::meta::stream s;
  std::span<float> const y(static_cast<float*>(nullptr), 3);
  std::span<float const> const x(static_cast<float const*>(nullptr), 4);
  std::string message;
  try {
    ops::add(s, y, x);
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::add: the size of y is 3, but that of x is 4; the two must be the same");
}

TEST_CASE("elementwise: the meta device counts the operations per element") {
  parallel::meta::stream s;
  std::span<float> const y(static_cast<float*>(nullptr), 5);
  ops::fill(s, y, 1.0F);
  ops::copy(s, y, y);
  ops::cast(s, std::span<double>(static_cast<double*>(nullptr), 5), y);
  CHECK(s.operations() == 0);
  ops::add(s, y, y);
  ops::multiply(s, y, y);
  ops::scale(s, y, 2.0F);
  CHECK(s.operations() == 15);
  double const* const norm = nullptr;
  ops::normalise(s, y, norm, 1.0);
  ops::axpby(s, y, y, 1.0, 2.0);
  CHECK(s.operations() == 35);
}

}  // namespace elementwise_test
