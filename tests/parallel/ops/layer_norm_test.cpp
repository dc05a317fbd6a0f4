// layer_norm against an independent formula in double, numeric derivatives, and strided rows.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <parallel/ops/host/layer_norm.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "columns_in_place.hpp"
#include "support.hpp"

namespace layer_norm_test {

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
  std::vector<T> x, dy, weight, bias;
  std::vector<T> y, dx;
  std::vector<A> mean, rstd, dweight, dbias;

  problem(ptrdiff_t m, ptrdiff_t n)
      : rows(m),
        columns(n),
        x(random<T>(m * n, 1, 2.0)),
        dy(random<T>(m * n, 2)),
        weight(random<T>(n, 3)),
        bias(random<T>(n, 4)),
        y(x.size()),
        dx(x.size()),
        mean(static_cast<std::size_t>(m)),
        rstd(mean),
        dweight(random<A>(n, 5)),
        dbias(random<A>(n, 6)) {}

  template <class Stream>
  void operator()(Stream& s) {
    auto const full = [&](std::vector<T>& data) {
      return parallel::matrix_view<T>(data.data(), {rows, columns});
    };
    ops::layer_norm(s, full(y), vector(mean), vector(rstd), full(x), vector(weight), vector(bias),
                    {.eps = 1e-4F});
    ops::layer_norm_backward_input(s, full(dx), full(dy), full(x), vector(weight), vector(mean),
                                   vector(rstd));
    ops::layer_norm_backward_weight(s, vector(dweight), vector(dbias), full(dy), full(x),
                                    vector(mean), vector(rstd));
  }
};

/// y of one row by E[x^2] - E[x]^2, an independent formula.
std::vector<double> formula(std::vector<double> const& x, std::vector<double> const& weight,
                            std::vector<double> const& bias, double eps) {
  double sum = 0.0, squares = 0.0;
  for (double const v : x) {
    sum += v;
    squares += v * v;
  }
  auto const n = static_cast<double>(x.size());
  double const mean = sum / n, variance = squares / n - mean * mean;
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - mean) / std::sqrt(variance + eps) * weight[i] + bias[i];
  return y;
}

TEST_CASE("layer_norm: the reference follows the formula, its gradients the numeric derivatives") {
  problem<double> p(3, 7);
  auto const dweight = p.dweight, dbias = p.dbias;
  on_reference(p);
  double const eps = double(1e-4F);
  double const h = 1e-6;
  for (ptrdiff_t m = 0; m < p.rows; ++m) {
    std::vector<double> const row(p.x.begin() + m * 7, p.x.begin() + (m + 1) * 7);
    auto const expected = formula(row, p.weight, p.bias, eps);
    for (std::size_t i = 0; i < 7; ++i)
      CHECK(std::abs(p.y[static_cast<std::size_t>(m) * 7 + i] - expected[i]) <= 1e-12);
    for (std::size_t i = 0; i < 7; ++i) {
      auto up = row, down = row;
      up[i] += h;
      down[i] -= h;
      auto const high = formula(up, p.weight, p.bias, eps);
      auto const low = formula(down, p.weight, p.bias, eps);
      double slope = 0.0;
      for (std::size_t j = 0; j < 7; ++j)
        slope += p.dy[static_cast<std::size_t>(m) * 7 + j] * (high[j] - low[j]) / (2.0 * h);
      CHECK(std::abs(p.dx[static_cast<std::size_t>(m) * 7 + i] - slope) <= 1e-7);
    }
  }
  // y is linear in weight and bias: their gradients are sums of dy times (y - bias)/weight, and of
  // dy
  for (std::size_t i = 0; i < 7; ++i) {
    double weight_sum = dweight[i], bias_sum = dbias[i];
    for (std::size_t m = 0; m < 3; ++m) {
      weight_sum += p.dy[m * 7 + i] * (p.y[m * 7 + i] - p.bias[i]) / p.weight[i];
      bias_sum += p.dy[m * 7 + i];
    }
    CHECK(std::abs(p.dweight[i] - weight_sum) <= 1e-12);
    CHECK(std::abs(p.dbias[i] - bias_sum) <= 1e-12);
  }
}

TEST_CASE_TEMPLATE(
    "layer_norm: the host equals the reference for odd shapes, with any number of threads", T,
    float, bf16, double) {
  using A = accumulate_t<T>;
  for (ptrdiff_t const rows : {0, 1, 3, 64, 131})
    for (ptrdiff_t const columns : {1, 2, 15, 17, 33, 65, 768}) {
      CAPTURE(rows);
      CAPTURE(columns);
      problem<T> a(rows, columns), b(rows, columns), c(rows, columns);
      on_reference(a);
      on_host(1, [&](auto& s) { b(s); });
      on_host(2, [&](auto& s) { c(s); });
      // one column: x - mean is the rounding error of the mean, times 1/sqrt(eps) = 100
      double const base = (columns <= 2 ? 400.0 : 40.0) * unit<A>;
      CHECK(excess(b.mean, a.mean, 0.0) <= base);
      CHECK(excess(b.rstd, a.rstd, 100.0 * unit<A>) <= base);
      CHECK(excess(b.y, a.y, 2.0 * unit<T>) <= base * 4.0);
      CHECK(excess(b.dx, a.dx, 2.0 * unit<T>) <= (columns <= 2 ? 1e6 : 60.0) * unit<A>);
      CHECK(excess(b.dweight, a.dweight, 0.0) <= base * static_cast<double>(4 + rows));
      CHECK(excess(b.dbias, a.dbias, 0.0) <= base * static_cast<double>(1 + rows));
      CHECK(same_bits(b.y, c.y));
      CHECK(same_bits(b.dx, c.dx));
      CHECK(same_bits(b.dweight, c.dweight));
      CHECK(same_bits(b.dbias, c.dbias));
    }
}

TEST_CASE("layer_norm: a large common offset does not spoil the variance") {
  ptrdiff_t const columns = 768;
  auto x = random<float>(columns, 1);
  std::vector<double> wide(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += 1000.0F;
    wide[i] = double(x[i]);
  }
  std::vector<float> const weight(x.size(), 1.0F);
  std::vector<double> const unit_weight(x.size(), 1.0);
  std::vector<float> y(x.size());
  std::vector<double> exact(x.size());
  on_host(1, [&](auto& s) {
    ops::layer_norm(s, matrix(y, 1), {}, {}, matrix(x, 1), vector(weight), {});
  });
  on_reference([&](auto& s) {
    ops::layer_norm(s, matrix(exact, 1), {}, {}, matrix(wide, 1), vector(unit_weight), {});
  });
  CHECK(excess(y, exact, 0.0) <= 2e-4);  // the spacing of floats at 1000 is 6e-5
}

/// For check_columns_in_place.
template <class T>
struct columns_norm {
  using statistics = std::vector<accumulate_t<T>>;
  statistics mean = statistics(5);
  statistics rstd = statistics(5);
  void forward(auto& s, auto y, auto x, auto weight) {
    ops::layer_norm(s, y, vector(mean), vector(rstd), x, weight, {});
  }
  void backward_input(auto& s, auto dx, auto dy, auto x, auto weight) {
    ops::layer_norm_backward_input(s, dx, dy, x, weight, vector(mean), vector(rstd));
  }
  void backward_weight(auto& s, auto dweight, auto dy, auto x) {
    ops::layer_norm_backward_weight(s, dweight, {}, dy, x, vector(mean), vector(rstd));
  }
};

TEST_CASE_TEMPLATE(
    "layer_norm: columns of a wider matrix are normalised in place, the others unchanged", T, float,
    bf16, double) {
  check_columns_in_place<T>(columns_norm<T>{});
}

TEST_CASE("layer_norm: a NaN affects its own row only") {
  auto x = random<float>(3 * 33, 1);
  x[40] = std::nanf("");
  std::vector<float> const weight(33, 1.0F);
  std::vector<float> y(x.size());
  on_host(1, [&](auto& s) {
    ops::layer_norm(s, matrix(y, 3), {}, {}, matrix(x, 3), vector(weight), {});
  });
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 33 == 1));
}

TEST_CASE("layer_norm: a weight of the wrong size is refused") {
  std::vector<float> x(6), y(6), weight(2);
  std::string message;
  try {
    on_reference([&](auto& s) {
      ops::layer_norm(s, matrix(y, 2), {}, {}, matrix(x, 2), vector(weight), {});
    });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message ==
        "ops::layer_norm: the size of weight is 2, but that of a row is 3; the two must be the "
        "same");
}

TEST_CASE("layer_norm_backward_input: the addend is added before the one rounding") {
  for (ptrdiff_t const rows : {1, 5, 131})
    for (ptrdiff_t const columns : {3, 17, 33, 768}) {
      auto const x = random<bf16>(rows * columns, 1, 2.0), dy = random<bf16>(rows * columns, 2),
                 addend = random<bf16>(rows * columns, 3), weight = random<bf16>(columns, 4);
      std::vector<float> const mean = random<float>(rows, 5, 0.1);
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
        ops::layer_norm_backward_input(s, matrix(to, rows), matrix(of_y, rows), matrix(input, rows),
                                       vector(scale), vector(mean), vector(rstd),
                                       matrix(addends, rows)...);
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

TEST_CASE("layer_norm: the meta device takes null pointers") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const x(nullptr, {4, 3});
  parallel::vector_view<bf16> const weight(nullptr, {3});
  parallel::vector_view<float> const mean(nullptr, {4}), dweight(nullptr, {3});
  ops::layer_norm(s, x, mean, mean, x, weight, weight);
  ops::layer_norm_backward_input(s, x, x, x, weight, mean, mean);
  ops::layer_norm_backward_weight(s, dweight, dweight, x, x, mean, mean);
  CHECK(s.operations() == 12 * (8 + 12 + 5));
  auto const initial = s.operations();
  ops::layer_norm_backward_input(s, x, x, x, weight, mean, mean, x);
  CHECK(s.operations() - initial == 12 * 13);
}

}  // namespace layer_norm_test
