// Products by the matrix unit: exact on integers that need all parts of a float, with the error of
// float sums otherwise, and with the same bits for any number of threads or rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/host/detail/gemm.hpp>
#include <parallel/ops/host/detail/gemm_amx.hpp>

namespace gemm_amx_test {

namespace detail = parallel::host::detail;
using parallel::bf16;
using parallel::index;

std::size_t as_size(index i) { return static_cast<std::size_t>(i); }

/// Prints that the tests of the unit are skipped if the processor has none.
bool is_missing() {
  if (parallel::host::has_matrix_unit()) return false;
  MESSAGE("skipped: this processor has no matrix unit (AMX)");
  return true;
}

struct extents {
  index m, n, k;
};

template <class T>
struct factors {
  extents e;
  bool transpose_a, transpose_b;
  std::vector<T> a = std::vector<T>(as_size(e.m * e.k));
  std::vector<T> b = std::vector<T>(as_size(e.k * e.n));

  T& left(index i, index k) { return a[as_size(transpose_a ? k * e.m + i : i * e.k + k)]; }
  T& right(index k, index j) { return b[as_size(transpose_b ? j * e.k + k : k * e.n + j)]; }

  void fill(auto const& left_value, auto const& right_value) {
    std::uint64_t drawn = 0;
    for (index i = 0; i < e.m; ++i)
      for (index k = 0; k < e.k; ++k) left(i, k) = T(left_value(drawn++));
    for (index k = 0; k < e.k; ++k)
      for (index j = 0; j < e.n; ++j) right(k, j) = T(right_value(drawn++));
  }

  template <class C>
  detail::gemm_amx<T, C> product(std::vector<C>& c) const {
    return {.m = e.m,
            .n = e.n,
            .k = e.k,
            .a = {a.data(), transpose_a ? 1 : e.k, transpose_a ? e.m : 1},
            .b = {b.data(), transpose_b ? 1 : e.n, transpose_b ? e.k : 1},
            .c = c.data(),
            .ldc = e.n};
  }

  double exact(index i, index j, double& size) {
    double sum = 0;
    for (index k = 0; k < e.k; ++k) {
      double const term = static_cast<double>(left(i, k)) * static_cast<double>(right(k, j));
      sum += term;
      size += std::abs(term);
    }
    return sum;
  }
};

parallel::philox const draws(11, 12);

/// Integers from -limit to limit.
auto integers(std::uint32_t limit) {
  return [limit](std::uint64_t i) {
    return static_cast<float>(static_cast<int>(draws.bits(i) % (2 * limit + 1)) -
                              static_cast<int>(limit));
  };
}
auto normal() {
  return [](std::uint64_t i) { return static_cast<float>(draws.normal(i)); };
}

/// Shapes: a depth that is less than one step, depths of several near and far parts, and a B that
/// is packed in several blocks.
constexpr std::array<extents, 6> all_extents{
    {{33, 70, 17}, {5, 40, 32}, {64, 32, 64}, {300, 100, 290}, {40, 130, 800}, {33, 97, 2118}}};

template <class T, class C>
void check_exactly(auto const& left, auto const& right) {
  parallel::host::workspace memory;
  for (auto const& e : all_extents)
    for (int bits = 0; bits < 4; ++bits) {
      CAPTURE(e.m);
      CAPTURE(e.n);
      CAPTURE(e.k);
      CAPTURE(bits);
      factors<T> f{.e = e, .transpose_a = (bits & 1) != 0, .transpose_b = (bits & 2) != 0};
      f.fill(left, right);
      std::vector<C> expected(as_size(e.m * e.n)), sum(expected.size()), addend(expected.size());
      for (std::size_t i = 0; i < addend.size(); ++i) addend[i] = C(static_cast<float>(i % 5));
      for (index i = 0; i < e.m; ++i)
        for (index j = 0; j < e.n; ++j) {
          double size = 0;
          double const exact = f.exact(i, j, size);
          expected[as_size(i * e.n + j)] = C(static_cast<float>(exact));
          sum[as_size(i * e.n + j)] =
              C(static_cast<float>(exact) + static_cast<float>(addend[as_size(i * e.n + j)]));
        }
      for (index const packed_bytes : {index(1), index(40000), index(16) << 20})
        for (int const threads : {1, 3}) {
          std::vector<C> c(expected.size(), C(77.0F));
          auto product = f.product(c);
          product.packed_bytes = packed_bytes;
          product.min_block = 1;
          product(memory, threads);
          CHECK(c == expected);
          product.addend = addend.data();
          product(memory, threads);
          CHECK(c == sum);
          c = addend;
          product.addend = c.data();
          product(memory, threads);
          CHECK(c == sum);
        }
    }
}

TEST_CASE("gemm_amx: integers are multiplied exactly, in every shape and transposition") {
  if (is_missing()) return;
  check_exactly<bf16, float>(integers(4), integers(4));
  check_exactly<bf16, bf16>(integers(4), integers(4));
  check_exactly<float, float>(integers(4), integers(4));
  // integers of 22 bits need three parts; few terms are not zero, so that sums stay below 2^24
  auto const long_ones = [](std::uint64_t i) {
    return draws.bits(i) % 499 == 0 ? integers(0x1fffff)(i + 1) : 0.0F;
  };
  check_exactly<float, float>(long_ones, integers(1));
  check_exactly<float, float>(integers(1), long_ones);
}

TEST_CASE("gemm_amx: a product of floats is as exact as one in SIMD registers") {
  if (is_missing()) return;
  parallel::host::workspace memory;
  for (auto const& e : {extents{64, 64, 1}, extents{65, 70, 7}, extents{64, 96, 1000}}) {
    CAPTURE(e.k);
    factors<float> f{.e = e, .transpose_a = false, .transpose_b = true};
    f.fill(normal(), normal());
    std::vector<float> by_unit(as_size(e.m * e.n)), by_lanes(by_unit.size());
    auto const product = f.product(by_unit);
    product(memory, 1);
    detail::gemm<float, float>{.m = e.m,
                               .n = e.n,
                               .k = e.k,
                               .a = product.a,
                               .b = product.b,
                               .c = by_lanes.data(),
                               .ldc = e.n}(memory, 1);
    double unit = 0, lanes = 0;
    for (index i = 0; i < e.m; ++i)
      for (index j = 0; j < e.n; ++j) {
        double size = 0;
        double const exact = f.exact(i, j, size);
        auto const error = [&](std::vector<float> const& c) {
          return std::abs(static_cast<double>(c[as_size(i * e.n + j)]) - exact) / size;
        };
        unit = std::max(unit, error(by_unit));
        lanes = std::max(lanes, error(by_lanes));
      }
    CHECK(unit < std::max(2 * lanes, 0x1p-21));  // one product is six, each rounded
  }
}

TEST_CASE_TEMPLATE("gemm_amx: the bits of a result depend on neither threads nor other rows", T,
                   float, bf16) {
  if (is_missing()) return;
  parallel::host::workspace memory;
  factors<T> f{.e = {700, 300, 2100}, .transpose_a = false, .transpose_b = false};
  f.fill(normal(), normal());
  std::vector<float> expected(as_size(f.e.m * f.e.n));
  f.product(expected)(memory, 1);
  for (int const threads : {2, 3}) {
    std::vector<float> c(expected.size());
    f.product(c)(memory, threads);
    CHECK(c == expected);
  }
  for (index const m : {index(1), index(33), index(290)}) {
    std::vector<float> c(as_size(m * f.e.n));
    auto product = f.product(c);
    product.m = m;
    product.packed_bytes = 100000;
    product.min_block = 1;
    product(memory, 2);
    CHECK(std::equal(c.begin(), c.end(), expected.begin()));
  }
}

TEST_CASE("gemm_amx: infinity and NaN spread over their row or column only") {
  if (is_missing()) return;
  parallel::host::workspace memory;
  for (float const bad : {INFINITY, -INFINITY, NAN, 3.4e38F}) {
    factors<float> f{.e = {40, 50, 60}, .transpose_a = false, .transpose_b = false};
    f.fill(normal(), normal());
    f.left(7, 9) = bad;
    f.right(20, 30) = bad;
    std::vector<float> c(as_size(f.e.m * f.e.n));
    f.product(c)(memory, 1);
    for (index i = 0; i < f.e.m; ++i)
      for (index j = 0; j < f.e.n; ++j)
        CHECK(std::isfinite(c[as_size(i * f.e.n + j)]) == (i != 7 && j != 30));
  }
}

}  // namespace gemm_amx_test
