// rms_norm against an independent formula in double, numeric derivatives, and strided rows.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <parallel/ops/host/rms_norm.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "columns_in_place.hpp"
#include "support.hpp"

namespace rms_norm_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;

template <class T>
struct problem {
  using A = accumulate_t<T>;
  ptrdiff_t rows;
  ptrdiff_t columns;
  std::vector<T> x, dy, weight;
  std::vector<T> y, dx;
  std::vector<A> rstd, dweight;

  problem(ptrdiff_t m, ptrdiff_t n)
      : rows(m),
        columns(n),
        x(random<T>(m * n, 1, 2.0)),
        dy(random<T>(m * n, 2)),
        weight(random<T>(n, 3)),
        y(x.size()),
        dx(x.size()),
        rstd(static_cast<std::size_t>(m)),
        dweight(random<A>(n, 5)) {}

  template <class Stream>
  void operator()(Stream& s) {
    auto const full = [&](std::vector<T>& data) {
      return parallel::matrix_view<T>(data.data(), {rows, columns});
    };
    ops::rms_norm(s, full(y), vector(rstd), full(x), vector(weight), {.eps = 1e-4});
    ops::rms_norm_backward_input(s, full(dx), full(dy), full(x), vector(weight), vector(rstd));
    ops::rms_norm_backward_weight(s, vector(dweight), full(dy), full(x), vector(rstd));
  }
};

/// y of one row, by its length: |x| = sqrt(n mean(x^2)).
std::vector<double> formula(std::vector<double> const& x, std::vector<double> const& weight,
                            double eps) {
  double length = 0.0;
  for (double const v : x) length = std::hypot(length, v);
  auto const n = static_cast<double>(x.size());
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = weight[i] * x[i] * std::sqrt(n) / std::hypot(length, std::sqrt(n * eps));
  return y;
}

TEST_CASE("rms_norm: the reference follows the formula, its gradients the numeric derivatives") {
  problem<double> p(3, 7);
  auto const dweight = p.dweight;
  on_reference(p);
  double const eps = 1e-4;
  double const h = 1e-6;
  for (std::size_t m = 0; m < 3; ++m) {
    auto const first = p.x.begin() + static_cast<ptrdiff_t>(m) * 7;
    std::vector<double> const row(first, first + 7);
    auto const expected = formula(row, p.weight, eps);
    for (std::size_t i = 0; i < 7; ++i) CHECK(std::abs(p.y[m * 7 + i] - expected[i]) <= 1e-13);
    for (std::size_t i = 0; i < 7; ++i) {
      auto up = row, down = row;
      up[i] += h;
      down[i] -= h;
      auto const high = formula(up, p.weight, eps);
      auto const low = formula(down, p.weight, eps);
      double slope = 0.0;
      for (std::size_t j = 0; j < 7; ++j) slope += p.dy[m * 7 + j] * (high[j] - low[j]) / (2.0 * h);
      CHECK(std::abs(p.dx[m * 7 + i] - slope) <= 1e-7);
    }
  }
  // y is linear in weight: its gradient is a sum of dy times y/weight
  for (std::size_t i = 0; i < 7; ++i) {
    double sum = dweight[i];
    for (std::size_t m = 0; m < 3; ++m) sum += p.dy[m * 7 + i] * p.y[m * 7 + i] / p.weight[i];
    CHECK(std::abs(p.dweight[i] - sum) <= 1e-12);
  }
}

TEST_CASE_TEMPLATE(
    "rms_norm: the host equals the reference for odd shapes, with any number of threads", T, float,
    bf16, double) {
  using A = accumulate_t<T>;
  for (ptrdiff_t const rows : {0, 1, 3, 64, 131})
    for (ptrdiff_t const columns : {1, 2, 15, 17, 33, 65, 768}) {
      CAPTURE(rows);
      CAPTURE(columns);
      problem<T> a(rows, columns), b(rows, columns), c(rows, columns);
      on_reference(a);
      on_host(1, [&](auto& s) { b(s); });
      on_host(2, [&](auto& s) { c(s); });
      double const base = 40.0 * unit<A>;
      CHECK(excess(b.rstd, a.rstd, 20.0 * unit<A>) <= 0.0);
      CHECK(excess(b.y, a.y, 2.0 * unit<T>) <= base);
      // one column: g - x^ mean(g x^) cancels, times up to 1/sqrt(eps) = 100
      CHECK(excess(b.dx, a.dx, 2.0 * unit<T>) <= (columns <= 2 ? 100.0 : 2.0) * base);
      CHECK(excess(b.dweight, a.dweight, 0.0) <= base * static_cast<double>(4 + rows));
      CHECK(same_bits(b.y, c.y));
      CHECK(same_bits(b.dx, c.dx));
      CHECK(same_bits(b.dweight, c.dweight));
    }
}

/// For check_columns_in_place.
template <class T>
struct columns_norm {
  using statistics = std::vector<accumulate_t<T>>;
  statistics rstd = statistics(5);
  void forward(auto& s, auto y, auto x, auto weight) {
    ops::rms_norm(s, y, vector(rstd), x, weight);
  }
  void backward_input(auto& s, auto dx, auto dy, auto x, auto weight) {
    ops::rms_norm_backward_input(s, dx, dy, x, weight, vector(rstd));
  }
  void backward_weight(auto& s, auto dweight, auto dy, auto x) {
    ops::rms_norm_backward_weight(s, dweight, dy, x, vector(rstd));
  }
};

TEST_CASE_TEMPLATE(
    "rms_norm: columns of a wider matrix are normalised in place, the others unchanged", T, float,
    bf16, double) {
  check_columns_in_place<T>(columns_norm<T>{});
}

TEST_CASE("rms_norm: a NaN affects its own row only") {
  auto x = random<float>(3 * 33, 1);
  x[40] = std::nanf("");
  std::vector<float> const weight(33, 1.0F);
  std::vector<float> y(x.size());
  on_host(1, [&](auto& s) { ops::rms_norm(s, matrix(y, 3), {}, matrix(x, 3), vector(weight)); });
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 33 == 1));
}

TEST_CASE("rms_norm: a weight of the wrong size is refused") {
  std::vector<float> x(6), y(6), weight(2);
  CHECK_THROWS_WITH_AS(on_reference([&](auto& s) {
                         ops::rms_norm(s, matrix(y, 2), {}, matrix(x, 2), vector(weight));
                       }),
                       "ops::rms_norm: the size of weight is 2, but that of a row is 3; the two "
                       "must be the same",
                       parallel::error);
}

TEST_CASE("rms_norm_backward_input: the addend is added before the one rounding") {
  for (ptrdiff_t const rows : {1, 5, 131})
    for (ptrdiff_t const columns : {3, 17, 33, 768}) {
      auto const x = random<bf16>(rows * columns, 1, 2.0), dy = random<bf16>(rows * columns, 2),
                 addend = random<bf16>(rows * columns, 3), weight = random<bf16>(columns, 4);

      std::vector<float> const rstd(static_cast<std::size_t>(rows), 0.5F);
      auto const wide = [](std::vector<bf16> const& numbers) {
        return std::vector<float>(numbers.begin(), numbers.end());
      };
      // the same arithmetic in float, rounded afterwards
      auto const wide_x = wide(x), wide_dy = wide(dy), wide_weight = wide(weight);
      std::vector<float> gradient(x.size());
      std::vector<bf16> dx(x.size()), on_reference_too(x.size()), expected(x.size());
      auto const run = [&](auto& s, auto& to, auto const& of_y, auto const& input,
                           auto const& scale, auto const&... addends) {
        ops::rms_norm_backward_input(s, matrix(to, rows), matrix(of_y, rows), matrix(input, rows),
                                     vector(scale), vector(rstd), matrix(addends, rows)...);
      };
      on_host(2, [&](auto& s) {
        run(s, gradient, wide_dy, wide_x, wide_weight);
        run(s, dx, dy, x, weight, addend);
      });
      on_reference([&](auto& s) { run(s, on_reference_too, dy, x, weight, addend); });
      for (std::size_t i = 0; i < dx.size(); ++i)
        expected[i] = bf16(gradient[i] + static_cast<float>(addend[i]));
      CHECK(same_bits(dx, expected));
      CHECK(excess(on_reference_too, expected, 2.0 * unit<bf16>) <= 60.0 * unit<float>);
    }
}

TEST_CASE("rms_norm: the meta device takes null pointers") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const x(nullptr, {4, 3});
  parallel::vector_view<bf16> const weight(nullptr, {3});
  parallel::vector_view<float> const rstd(nullptr, {4}), dweight(nullptr, {3});
  ops::rms_norm(s, x, rstd, x, weight);
  ops::rms_norm_backward_input(s, x, x, x, weight, rstd);
  ops::rms_norm_backward_weight(s, dweight, x, x, rstd);
  CHECK(s.operations() == 12 * (4 + 8 + 3));
  auto const initial = s.operations();
  ops::rms_norm_backward_input(s, x, x, x, weight, rstd, x);
  CHECK(s.operations() - initial == 12 * 9);
}

}  // namespace rms_norm_test
