// layer_norm and rms_norm against independent formulas in double, numeric derivatives, and strided
// rows.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <parallel/ops/host/norm/norm.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/columns_in_place.hpp"
#include "parallel/ops/support.hpp"

namespace norm_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;

/// The operations of layer_norm, with one list of arguments for both norms.
struct layer_norm {
  static constexpr bool centred = true;
  static constexpr char const* name = "layer_norm";
  static constexpr unsigned operations[] = {8, 12, 5};  // forward, backward input and weight

  static void forward(auto& s, auto y, auto mean, auto rstd, auto x, auto weight, auto bias,
                      ops::norm_options options = {}) {
    ops::layer_norm(s, y, mean, rstd, x, weight, bias, options);
  }
  static void backward_input(auto& s, auto dx, auto dy, auto x, auto weight, auto mean, auto rstd,
                             auto... addend) {
    ops::layer_norm_backward_input(s, dx, dy, x, weight, mean, rstd, addend...);
  }
  static void backward_weight(auto& s, auto dweight, auto dbias, auto dy, auto x, auto mean,
                              auto rstd) {
    ops::layer_norm_backward_weight(s, dweight, dbias, dy, x, mean, rstd);
  }

  /// y of one row by E[x^2] - E[x]^2, an independent formula.
  static std::vector<double> formula(std::vector<double> const& x,
                                     std::vector<double> const& weight,
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
  static constexpr double formula_error = 1e-12;
};

/// The same of rms_norm, which ignores means and biases.
struct rms_norm {
  static constexpr bool centred = false;
  static constexpr char const* name = "rms_norm";
  static constexpr unsigned operations[] = {4, 8, 3};

  static void forward(auto& s, auto y, auto /*mean*/, auto rstd, auto x, auto weight, auto /*bias*/,
                      ops::norm_options options = {}) {
    ops::rms_norm(s, y, rstd, x, weight, options);
  }
  static void backward_input(auto& s, auto dx, auto dy, auto x, auto weight, auto /*mean*/,
                             auto rstd, auto... addend) {
    ops::rms_norm_backward_input(s, dx, dy, x, weight, rstd, addend...);
  }
  static void backward_weight(auto& s, auto dweight, auto /*dbias*/, auto dy, auto x, auto /*mean*/,
                              auto rstd) {
    ops::rms_norm_backward_weight(s, dweight, dy, x, rstd);
  }

  /// y of one row, by its length: |x| = sqrt(n mean(x^2)).
  static std::vector<double> formula(std::vector<double> const& x,
                                     std::vector<double> const& weight,
                                     std::vector<double> const& /*bias*/, double eps) {
    double length = 0.0;
    for (double const v : x) length = std::hypot(length, v);
    auto const n = static_cast<double>(x.size());
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = weight[i] * x[i] * std::sqrt(n) / std::hypot(length, std::sqrt(n * eps));
    return y;
  }
  static constexpr double formula_error = 1e-13;
};

template <class Norm, class T>
struct problem {
  using A = accumulate_t<T>;
  ptrdiff_t rows;
  ptrdiff_t columns;
  std::vector<T> x, dy, weight, bias;
  std::vector<T> y, dx;
  std::vector<A> mean, rstd, dweight, dbias;
  double weight_offset = 0.0;

  problem(ptrdiff_t m, ptrdiff_t n)
      : rows(m),
        columns(n),
        x(random<T>(m * n, 1, 2.0)),
        dy(random<T>(m * n, 2)),
        weight(random<T>(n, 3)),
        bias(Norm::centred ? random<T>(n, 4) : std::vector<T>(weight.size())),
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
    Norm::forward(s, full(y), vector(mean), vector(rstd), full(x), vector(weight), vector(bias),
                  {.eps = eps, .weight_offset = weight_offset});
    Norm::backward_input(s, full(dx), full(dy), full(x), vector(weight), vector(mean), vector(rstd),
                         ops::rows_view<T const>{}, weight_offset);
    Norm::backward_weight(s, vector(dweight), vector(dbias), full(dy), full(x), vector(mean),
                          vector(rstd));
  }

  static constexpr double eps = 1e-4F;
};

TEST_CASE_TEMPLATE("norm: the reference follows the formula, its gradients the numeric derivatives",
                   Norm, layer_norm, rms_norm) {
  using parameters = problem<Norm, double>;
  parameters p(3, 7);
  auto const dweight = p.dweight, dbias = p.dbias;
  on_reference(p);
  double const eps = parameters::eps;
  double const h = 1e-6;
  for (std::size_t m = 0; m < 3; ++m) {
    auto const first = p.x.begin() + static_cast<ptrdiff_t>(m) * 7;
    std::vector<double> const row(first, first + 7);
    auto const expected = Norm::formula(row, p.weight, p.bias, eps);
    for (std::size_t i = 0; i < 7; ++i)
      CHECK(std::abs(p.y[m * 7 + i] - expected[i]) <= Norm::formula_error);
    for (std::size_t i = 0; i < 7; ++i) {
      auto up = row, down = row;
      up[i] += h;
      down[i] -= h;
      auto const high = Norm::formula(up, p.weight, p.bias, eps);
      auto const low = Norm::formula(down, p.weight, p.bias, eps);
      double slope = 0.0;
      for (std::size_t j = 0; j < 7; ++j) slope += p.dy[m * 7 + j] * (high[j] - low[j]) / (2.0 * h);
      CHECK(std::abs(p.dx[m * 7 + i] - slope) <= 1e-7);
    }
  }
  // y is linear in weight and bias: their gradients are sums of dy times (y - bias)/weight, and of
  // dy
  for (std::size_t i = 0; i < 7; ++i) {
    double weight_sum = dweight[i], bias_sum = dbias[i];
    for (std::size_t m = 0; m < 3; ++m) {
      weight_sum += p.dy[m * 7 + i] * (p.y[m * 7 + i] - p.bias[i]) / p.weight[i];
      if (Norm::centred) bias_sum += p.dy[m * 7 + i];
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
      problem<layer_norm, T> a(rows, columns), b(rows, columns), c(rows, columns);
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

TEST_CASE_TEMPLATE(
    "rms_norm: the host equals the reference for odd shapes, with any number of threads", T, float,
    bf16, double) {
  using A = accumulate_t<T>;
  for (ptrdiff_t const rows : {0, 1, 3, 64, 131})
    for (ptrdiff_t const columns : {1, 2, 15, 17, 33, 65, 768}) {
      CAPTURE(rows);
      CAPTURE(columns);
      problem<rms_norm, T> a(rows, columns), b(rows, columns), c(rows, columns);
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

TEST_CASE_TEMPLATE("norm: rows are multiplied by weight + weight_offset, on the host too", Norm,
                   layer_norm, rms_norm) {
  problem<Norm, double> offset(3, 7), shifted(3, 7);
  offset.weight_offset = 1;
  for (double& weight : shifted.weight) weight += 1;
  on_reference(offset);
  on_reference(shifted);
  CHECK(same_bits(offset.y, shifted.y));
  CHECK(same_bits(offset.dx, shifted.dx));
  problem<Norm, float> expected(3, 33), found(3, 33);
  expected.weight_offset = found.weight_offset = 1;
  on_reference(expected);
  on_host(1, [&](auto& s) { found(s); });
  CHECK(excess(found.y, expected.y, 2.0 * unit<float>) <= 40.0 * unit<float>);
  CHECK(excess(found.dx, expected.dx, 2.0 * unit<float>) <= 80.0 * unit<float>);
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
template <class Norm, class T>
struct columns_norm {
  using statistics = std::vector<accumulate_t<T>>;
  statistics mean = statistics(5);
  statistics rstd = statistics(5);
  void forward(auto& s, auto y, auto x, auto weight) {
    Norm::forward(s, y, vector(mean), vector(rstd), x, weight, no_bias);
  }
  void backward_input(auto& s, auto dx, auto dy, auto x, auto weight) {
    Norm::backward_input(s, dx, dy, x, weight, vector(mean), vector(rstd));
  }
  void backward_weight(auto& s, auto dweight, auto dy, auto x) {
    Norm::backward_weight(s, dweight, decltype(dweight){}, dy, x, vector(mean), vector(rstd));
  }
  static constexpr parallel::vector_view<T const> no_bias{};
};

TEST_CASE_TEMPLATE("norm: columns of a wider matrix are normalised in place, the others unchanged",
                   T, float, bf16, double) {
  check_columns_in_place<T>(columns_norm<layer_norm, T>{});
  check_columns_in_place<T>(columns_norm<rms_norm, T>{});
}

/// Without statistics and bias.
template <class Norm>
void plain_forward(auto& s, auto y, auto x, auto weight) {
  using statistics = parallel::vector_view<float>;
  Norm::forward(s, y, statistics{}, statistics{}, x, weight, parallel::vector_view<float const>{});
}

TEST_CASE_TEMPLATE("norm: a NaN affects its own row only", Norm, layer_norm, rms_norm) {
  auto x = random<float>(3 * 33, 1);
  x[40] = std::nanf("");
  std::vector<float> const weight(33, 1.0F);
  std::vector<float> y(x.size());
  on_host(1, [&](auto& s) { plain_forward<Norm>(s, matrix(y, 3), matrix(x, 3), vector(weight)); });
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 33 == 1));
}

TEST_CASE_TEMPLATE("norm: a weight of the wrong size is refused", Norm, layer_norm, rms_norm) {
  std::vector<float> x(6), y(6), weight(2);
  CHECK_THROWS_WITH_AS(on_reference([&](auto& s) {
                         plain_forward<Norm>(s, matrix(y, 2), matrix(x, 2), vector(weight));
                       }),
                       (std::string("ops::") + Norm::name +
                        ": the size of weight is 2, but that of a row is 3; the two must be the "
                        "same")
                           .c_str(),
                       parallel::error);
}

TEST_CASE_TEMPLATE("norm_backward_input: the addend is added before the one rounding", Norm,
                   layer_norm, rms_norm) {
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
        Norm::backward_input(s, matrix(to, rows), matrix(of_y, rows), matrix(input, rows),
                             vector(scale), vector(mean), vector(rstd), matrix(addends, rows)...);
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

TEST_CASE_TEMPLATE("norm: the meta device takes null pointers", Norm, layer_norm, rms_norm) {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const x(nullptr, {4, 3});
  parallel::vector_view<bf16> const weight(nullptr, {3});
  parallel::vector_view<float> const mean(nullptr, {4}), dweight(nullptr, {3});
  auto const [forward, backward_input, backward_weight] = Norm::operations;
  Norm::forward(s, x, mean, mean, x, weight, weight);
  Norm::backward_input(s, x, x, x, weight, mean, mean);
  Norm::backward_weight(s, dweight, dweight, x, x, mean, mean);
  CHECK(s.operations() == 12 * (forward + backward_input + backward_weight));
  auto const initial = s.operations();
  Norm::backward_input(s, x, x, x, weight, mean, mean, x);
  CHECK(s.operations() - initial == 12 * (backward_input + 1));
}

}  // namespace norm_test
