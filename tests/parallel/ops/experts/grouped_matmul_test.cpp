// Products of experts' rows against loops over rows, with blocks, experts without rows, and rows
// that belong to nobody.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <parallel/ops/host/cblas.hpp>
#include <parallel/ops/host/experts/grouped_matmul.hpp>
#include <parallel/ops/host/onednn.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

#include "parallel/ops/support.hpp"

namespace grouped_matmul_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;
using std::size_t;
using numbers = std::vector<std::int32_t>;

/// Small integers, of which products and sums are exact in every type.
template <class T>
std::vector<T> small(ptrdiff_t size, std::uint64_t seed) {
  std::vector<T> out;
  for (auto const id : random_ids(size, 5, seed)) out.push_back(number<T>(id - 2));
  return out;
}

/// Rows of a buffer of equal blocks.
struct segments {
  ptrdiff_t rows, blocks, experts;
  numbers ends;

  /// The expert of a row, or -1.
  [[nodiscard]] ptrdiff_t expert_of(ptrdiff_t row) const {
    ptrdiff_t const block = row / (rows / blocks);
    for (ptrdiff_t e = 0; e < experts; ++e)
      if (row % (rows / blocks) < ends[static_cast<size_t>(block * experts + e)]) return e;
    return -1;
  }
};

std::vector<segments> all_segments() {
  return {{6, 1, 3, {2, 2, 6}},     {40, 1, 4, {1, 30, 30, 37}},       {5, 1, 2, {0, 0}},
          {12, 2, 2, {3, 6, 0, 4}}, {60, 3, 2, {0, 0, 20, 20, 3, 20}}, {150, 1, 3, {7, 130, 150}}};
}

struct widths {
  ptrdiff_t out, in;
};

/// c by a loop over rows.
template <class T>
std::vector<T> products(segments const& of, widths w, std::vector<T> c, std::vector<T> const& a,
                        std::vector<T> const& b, ops::grouped_matmul_options options) {
  using A = accumulate_t<T>;
  for (ptrdiff_t m = 0; m < of.rows; ++m) {
    ptrdiff_t const expert = of.expert_of(m);
    for (ptrdiff_t n = 0; expert >= 0 && n < w.out; ++n) {
      auto& to = c[static_cast<size_t>(m * w.out + n)];
      A sum = options.accumulate ? A(to) : A(0);
      for (ptrdiff_t k = 0; k < w.in; ++k)
        sum += A(a[static_cast<size_t>(m * w.in + k)]) *
               A(b[static_cast<size_t>(expert * w.in * w.out +
                                       (options.transpose_b ? n * w.in + k : k * w.out + n))]);
      to = static_cast<T>(sum);
    }
  }
  return c;
}

/// The weights' gradient by a loop over rows: [experts in, out].
template <class T, class A>
std::vector<A> weight_gradient(segments const& of, widths w, std::vector<A> c,
                               std::vector<T> const& a, std::vector<T> const& b, bool accumulate) {
  if (!accumulate) std::ranges::fill(c, A(0));
  for (ptrdiff_t m = 0; m < of.rows; ++m)
    if (ptrdiff_t const expert = of.expert_of(m); expert >= 0)
      for (ptrdiff_t k = 0; k < w.in; ++k)
        for (ptrdiff_t n = 0; n < w.out; ++n)
          c[static_cast<size_t>((expert * w.in + k) * w.out + n)] +=
              A(a[static_cast<size_t>(m * w.in + k)]) * A(b[static_cast<size_t>(m * w.out + n)]);
  return c;
}

/// Checks both products on a stream.
template <class T>
void check_products(auto& s, segments const& of, widths w, bool accumulate) {
  using A = accumulate_t<T>;
  auto const a = small<T>(of.rows * w.in, 1), b = small<T>(of.experts * w.in * w.out, 2);
  auto const c = small<T>(of.rows * w.out, 3);
  for (bool const transpose_b : {false, true}) {
    CAPTURE(transpose_b);
    ops::grouped_matmul_options const options{.transpose_b = transpose_b, .accumulate = accumulate};
    auto got = c;
    ops::grouped_matmul(s, matrix(got, of.rows), matrix(a, of.rows),
                        matrix(b, of.experts * (transpose_b ? w.out : w.in)),
                        matrix(of.ends, of.blocks), options);
    s.synchronize();
    CHECK(same_bits(got, products(of, w, c, a, b, options)));
  }
  auto const gradient = small<A>(of.experts * w.in * w.out, 4);
  auto got = gradient;
  ops::grouped_matmul_weight(s, matrix(got, of.experts * w.in), matrix(a, of.rows),
                             matrix(c, of.rows), matrix(of.ends, of.blocks), accumulate);
  s.synchronize();
  CHECK(got == weight_gradient(of, w, gradient, a, c, accumulate));
}

TEST_CASE_TEMPLATE(
    "grouped_matmul: every engine has the products of each expert's rows, and other rows stay", T,
    float, bf16, double, std::uint64_t) {
  parallel::host::onednn_engine const onednn;
  parallel::host::cblas_engine const blas;  // it serves one thread at a time
  for (auto const& of : all_segments())
    for (widths const w : {widths{1, 1}, widths{5, 17}, widths{65, 34}})
      for (bool const accumulate : {false, true}) {
        CAPTURE(of.rows);
        CAPTURE(w.out);
        CAPTURE(w.in);
        parallel::reference::stream plain;
        check_products<T>(plain, of, w, accumulate);
        for (int const threads : {1, 2}) {
          parallel::host::stream own({.threads = threads});
          check_products<T>(own, of, w, accumulate);
          parallel::host::stream with_engine({.threads = threads, .engine = &onednn});
          check_products<T>(with_engine, of, w, accumulate);
          parallel::host::stream with_blas({.threads = threads, .engine = &blas});
          check_products<T>(with_blas, of, w, accumulate);
        }
      }
}

TEST_CASE_TEMPLATE(
    "grouped_matmul: the host's results do not depend on threads, and are the reference's within "
    "rounding",
    T, float, bf16) {
  segments const of{500, 1, 5, {3, 240, 240, 260, 480}};
  widths const w{70, 130};
  auto const a = random<T>(of.rows * w.in, 1), b = random<T>(of.experts * w.in * w.out, 2, 0.1);
  tolerance const bound{.relative = 4 * unit<T>, .absolute = 1e-4};
  compare_host(
      bound,
      [&](auto& s, auto c) {
        ops::grouped_matmul(s, parallel::matrix_view<T>(c.data(), {of.rows, w.out}),
                            matrix(a, of.rows), matrix(b, of.experts * w.in), matrix(of.ends, 1));
      },
      random<T>(of.rows * w.out, 3));
  auto const dy = random<T>(of.rows * w.out, 4, 0.1);
  compare_host(
      bound,
      [&](auto& s, auto c) {
        ops::grouped_matmul_weight(
            s, parallel::matrix_view<accumulate_t<T>>(c.data(), {of.experts * w.in, w.out}),
            matrix(a, of.rows), matrix(dy, of.rows), matrix(of.ends, 1), true);
      },
      random<accumulate_t<T>>(of.experts * w.in * w.out, 5));
}

TEST_CASE_TEMPLATE(
    "grouped_matmul: our own products of a row do not depend on the other rows of its expert", T,
    float, bf16) {
  widths const w{1100, 300};
  ptrdiff_t const rows = 700;
  auto const a = random<T>(rows * w.in, 1), b = random<T>(w.in * w.out, 2, 0.1);
  for (bool const transpose_b : {false, true}) {
    auto const first_row = [&](std::int32_t count) {
      numbers const ends{count};
      std::vector<T> c(static_cast<size_t>(rows * w.out));
      on_host(2, [&](auto& s) {
        ops::grouped_matmul(s, matrix(c, rows), matrix(a, rows),
                            matrix(b, transpose_b ? w.out : w.in), matrix(ends, 1),
                            {.transpose_b = transpose_b});
      });
      c.resize(static_cast<size_t>(w.out));
      return c;
    };
    auto const all = first_row(700);
    for (std::int32_t const count : {1, 2, 5, 12, 300}) CHECK(same_bits(first_row(count), all));
  }
}

TEST_CASE("grouped_matmul: shapes that do not belong together are refused by name") {
  auto const message_of = [](auto const& call) {
    return test::message_of([&] {
      parallel::meta::stream s;
      call(s);
    });
  };
  using floats = parallel::matrix_view<float>;
  auto const view = [](ptrdiff_t rows, ptrdiff_t columns) {
    return floats(nullptr, {rows, columns});
  };
  parallel::matrix_view<std::int32_t const> const ends(nullptr, {2, 3});
  auto const differ = [](std::string const& operation, std::string const& what, int a,
                         std::string const& other, int b) {
    return "ops::" + operation + ": " + what + " is " + std::to_string(a) + ", but " + other +
           " is " + std::to_string(b) + "; the two must be the same";
  };
  auto const multiply = [&](floats c, floats a, floats b, bool transpose_b) {
    return message_of(
        [=](auto& s) { ops::grouped_matmul(s, c, a, b, ends, {.transpose_b = transpose_b}); });
  };
  CHECK(multiply(view(8, 5), view(8, 4), view(12, 5), false) == "");
  CHECK(multiply(view(8, 5), view(8, 4), view(15, 4), true) == "");
  CHECK(multiply(view(7, 5), view(8, 4), view(12, 5), false) ==
        differ("grouped_matmul", "the number of rows of C", 7, "that of A", 8));
  CHECK(multiply(view(8, 5), view(8, 4), view(13, 5), false) ==
        "ops::grouped_matmul: 13 rows of weights and 8 rows are not divided equally by 3 experts "
        "and 2 blocks");
  CHECK(multiply(view(8, 5), view(8, 4), view(15, 5), false) ==
        differ("grouped_matmul", "the number of columns of A", 4,
               "the depth of an expert's weights", 5));
  CHECK(multiply(view(8, 6), view(8, 4), view(12, 5), false) ==
        differ("grouped_matmul", "the number of columns of C", 6,
               "the width of an expert's weights", 5));
  auto const weight = [&](floats c, floats a, floats b) {
    return message_of([=](auto& s) { ops::grouped_matmul_weight(s, c, a, b, ends, false); });
  };
  std::string const name = "grouped_matmul_weight";
  CHECK(weight(view(12, 5), view(8, 4), view(8, 5)) == "");
  CHECK(weight(view(12, 5), view(8, 4), view(7, 5)) ==
        differ(name, "the number of rows of A", 8, "that of B", 7));
  CHECK(weight(view(11, 5), view(8, 4), view(8, 5)) ==
        differ(name, "the number of rows of C", 11, "experts times columns of A", 12));
  CHECK(weight(view(12, 6), view(8, 4), view(8, 5)) ==
        differ(name, "the number of columns of C", 6, "that of B", 5));
  CHECK(weight(view(12, 5), view(7, 4), view(7, 5)) ==
        "ops::grouped_matmul_weight: 7 rows are not divided equally by 2 blocks");
}

TEST_CASE("grouped_matmul: the meta device counts the products of full blocks") {
  parallel::meta::stream s;
  parallel::matrix_view<bf16> const c(nullptr, {8, 5}), a(nullptr, {8, 4}), b(nullptr, {12, 5});
  parallel::matrix_view<std::int32_t const> const ends(nullptr, {1, 3});
  ops::grouped_matmul(s, c, a, b, ends);
  CHECK(s.operations() == 2 * 8 * 5 * 4);
  ops::grouped_matmul_weight(s, {nullptr, {12, 5}}, a, c, ends, false);
  CHECK(s.operations() == 2 * 2 * 8 * 5 * 4);
}

}  // namespace grouped_matmul_test
