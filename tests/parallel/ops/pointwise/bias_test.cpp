// add_bias and its gradient.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/host/pointwise/bias.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace bias_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;

TEST_CASE("add_bias: one number is added to each column, and its gradient sums columns") {
  std::vector<double> y{1, 2, 3, 4, 5, 6};
  std::vector<double> const bias{10, 20, 30};
  std::vector<double> gradient{100, 100, 100};
  on_reference([&](auto& s) {
    ops::add_bias(s, matrix(y, 2), vector(bias));
    ops::add_bias_backward(s, vector(gradient), matrix(y, 2));
  });
  CHECK(y == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(gradient == std::vector<double>{125, 147, 169});
}

TEST_CASE_TEMPLATE("add_bias: the host equals the reference for odd shapes", T, float, bf16, double,
                   std::uint64_t) {
  using A = accumulate_t<T>;
  for (std::ptrdiff_t const rows : {1, 2, 63, 64, 65, 130, 5000})
    for (std::ptrdiff_t const columns : {1, 2, 15, 17, 33, 100}) {
      CAPTURE(rows);
      CAPTURE(columns);
      auto const bias = random<T>(columns, 1);
      auto const y = random<T>(rows * columns, 2);
      auto const start = random<A>(columns, 3);
      auto a = y, b = y, c = y;
      auto da = start, db = start, dc = start;
      auto const run = [&](auto& s, std::vector<T>& out, std::vector<A>& gradient) {
        ops::add_bias(s, matrix(out, rows), vector(bias));
        ops::add_bias_backward(s, vector(gradient), matrix(y, rows));
      };
      on_reference([&](auto& s) { run(s, a, da); });
      on_host(1, [&](auto& s) { run(s, b, db); });
      on_host(2, [&](auto& s) { run(s, c, dc); });
      CHECK(same_bits(a, b));
      CHECK(same_bits(b, c));
      CHECK(same_bits(db, dc));
      auto const addend = random<T>(rows * columns, 4);
      auto e = y, f = y;
      on_reference(
          [&](auto& s) { ops::add_bias(s, matrix(e, rows), vector(bias), matrix(addend, rows)); });
      on_host(2, [&](auto& s) {
        ops::add_bias(s, matrix(f, rows), vector(bias), matrix(addend, rows));
      });
      CHECK(same_bits(e, f));
      CHECK(!same_bits(e, a));
      if constexpr (std::is_integral_v<T>)
        CHECK(same_bits(da, db));
      else  // the order of summation differs, over numbers of about 1
        CHECK(excess(da, db, 0.0) <= 8.0 * unit<A> * static_cast<double>(rows));
    }
}

TEST_CASE("add_bias: bias and addend are added together and rounded once") {
  // the next number after 1 is 1 + 2^-7: adding half of that twice, rounded in between, changes
  // nothing
  std::vector<bf16> const half(40, bf16(0x1p-8F));
  auto const check = [&](auto& s) {
    std::vector<bf16> y(80, bf16(1.0F));
    std::vector<bf16> const addend(80, bf16(0x1p-8F));
    ops::add_bias(s, matrix(y, 2), vector(half), matrix(addend, 2));
    s.synchronize();
    CHECK(y == std::vector<bf16>(80, bf16(1.0F + 0x1p-7F)));
  };
  on_reference(check);
  on_host(1, check);
  std::vector<double> y{1, 2, 3, 4}, other{100, 200, 300, 400, 500, 600};
  std::vector<double> const bias{10, 20}, addend{100, 200, 300, 400};
  on_reference([&](auto& s) { ops::add_bias(s, matrix(y, 2), vector(bias), matrix(addend, 2)); });
  CHECK(y == std::vector<double>{111, 222, 313, 424});
  on_reference([&](auto& s) {
    CHECK_THROWS_AS(ops::add_bias(s, matrix(y, 2), vector(bias), matrix(other, 3)),
                    parallel::error);
  });
}

TEST_CASE("add_bias_backward: without rows the gradient is unchanged") {
  std::vector<float> dbias{1, 2, 3};
  std::vector<float> const none;
  on_host(2, [&](auto& s) {
    ops::add_bias_backward(s, vector(dbias),
                           parallel::matrix_view<float const>(none.data(), {0, 3}));
  });
  CHECK(dbias == std::vector<float>{1, 2, 3});
}

TEST_CASE("add_bias: the meta device counts one addition per element") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const y(nullptr, {4, 3});
  ops::add_bias(s, y, parallel::vector_view<bf16 const>(nullptr, {3}));
  ops::add_bias_backward(s, parallel::vector_view<float>(nullptr, {3}), y);
  CHECK(s.operations() == 24);
  ops::add_bias(s, y, parallel::vector_view<bf16 const>(nullptr, {3}), y);
  CHECK(s.operations() == 48);
}

}  // namespace bias_test
