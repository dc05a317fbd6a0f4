// Reductions to one number.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/ops/host/reduce.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/reference.hpp>

#include "support.hpp"

namespace reduce_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::bf16;

TEST_CASE_TEMPLATE("reduce: squared_norm and sum on the host equal the reference", T, float, bf16,
                   double) {
  for (std::ptrdiff_t const size : {0, 1, 15, 16, 17, 1000, 65536, 65537, 200003}) {
    CAPTURE(size);
    auto const x = random<T>(size, 1);
    double squares[3] = {1.0, 1.0, 1.0}, sums[3] = {2.0, 2.0, 2.0};
    auto const run = [&](auto& s, int stream_index) {
      ops::squared_norm(s, &squares[stream_index], std::span(x));
      ops::sum(s, &sums[stream_index], std::span(x));
    };
    on_reference([&](auto& s) { run(s, 0); });
    on_host(1, [&](auto& s) { run(s, 1); });
    on_host(2, [&](auto& s) { run(s, 2); });
    CHECK(std::abs(squares[0] - squares[1]) <= 1e-12 * squares[0]);
    CHECK(std::abs(sums[0] - sums[1]) <= 1e-13 * static_cast<double>(size));
    CHECK(squares[1] == squares[2]);
    CHECK(sums[1] == sums[2]);
  }
}

TEST_CASE("sum: 64-bit integers are exact modulo 2^64, and bytes are exact") {
  auto const x = random<std::uint64_t>(1001, 1);
  std::vector<std::uint8_t> const bytes(70000, 255);
  std::uint64_t squares = 3, expected = 3, sum = 0, expected_sum = 0;
  for (auto const v : x) {
    expected += v * v;
    expected_sum += v;
  }
  std::int64_t count = 5;
  on_host(2, [&](auto& s) {
    ops::squared_norm(s, &squares, std::span(x));
    ops::sum(s, &sum, std::span(x));
    ops::sum(s, &count, std::span(bytes));
  });
  CHECK(squares == expected);
  CHECK(sum == expected_sum);
  CHECK(count == 5 + 70000 * 255);
}

TEST_CASE_TEMPLATE(
    "all_finite: one bad number is found anywhere, and finite arrays are not reported", T, float,
    bf16, double) {
  float const bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (std::ptrdiff_t const size : {1, 15, 16, 17, 33, 70000}) {
    auto x = random<T>(size, 1);
    if (size > 15) x[7] = number<T>(std::is_same_v<T, double> ? 1e300 : 3e38);
    int finite = 1;
    on_host(2, [&](auto& s) { ops::all_finite(s, &finite, std::span(x)); });
    CHECK(finite == 1);
    for (float const value : bad)
      for (std::size_t const position : {std::size_t{0}, x.size() / 2, x.size() - 1}) {
        auto const original = x[position];
        x[position] = T(value);
        int host = 1, reference = 1;
        on_host(2, [&](auto& s) { ops::all_finite(s, &host, std::span(x)); });
        on_reference([&](auto& s) { ops::all_finite(s, &reference, std::span(x)); });
        CHECK(host == 0);
        CHECK(reference == 0);
        x[position] = original;
      }
  }
  int finite = 1;
  on_host(1, [&](auto& s) { ops::all_finite(s, &finite, std::span<T const>()); });
  CHECK(finite == 1);
  finite = 0;  // a finite array does not change it
  auto const x = random<T>(5, 1);
  on_host(1, [&](auto& s) { ops::all_finite(s, &finite, std::span(x)); });
  CHECK(finite == 0);
}

TEST_CASE("reduce: the meta device takes null pointers") {
  parallel::meta::stream s;
  std::span<float const> const x(static_cast<float const*>(nullptr), 7);
  ops::squared_norm(s, nullptr, x);
  ops::sum(s, nullptr, x);
  ops::all_finite(s, nullptr, x);
  CHECK(s.operations() == 21);
}

TEST_CASE_TEMPLATE("exact_squared_norm: the result does not depend on division or threads", T,
                   float, bf16, double) {
  auto const x = random<T>(200001, 5, 1e3);
  parallel::exact_sum expected;
  for (T const v : x) expected.add(double(v) * double(v));
  double const value = expected.value();
  for (int const threads : {1, 3})
    for (std::size_t const cut : {std::size_t{0}, std::size_t{1}, std::size_t{70000}}) {
      parallel::exact_sum sum;
      on_host(threads, [&](auto& s) {
        ops::exact_squared_norm(s, &sum, std::span<T const>(x).first(cut));
        ops::exact_squared_norm(s, &sum, std::span<T const>(x).subspan(cut));
      });
      CHECK(sum.value() == value);
    }
  parallel::exact_sum plain;
  on_reference([&](auto& s) { ops::exact_squared_norm(s, &plain, std::span<T const>(x)); });
  CHECK(plain.value() == value);
}

}  // namespace reduce_test
