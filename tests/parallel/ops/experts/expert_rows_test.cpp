// Rows on their way to experts and back, against loops over choices.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/support/files.hpp>

#include "parallel/ops/support.hpp"

namespace expert_rows_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using std::ptrdiff_t;

/// Different places of all choices in a buffer of `places` rows; every seventh choice has none.
std::vector<std::int32_t> scattered(ptrdiff_t choices, ptrdiff_t places) {
  std::vector<std::int32_t> out;
  for (ptrdiff_t i = 0; i < choices; ++i)
    out.push_back(i % 7 == 6 ? -1 : static_cast<std::int32_t>((i * 5 + 3) % places));
  return out;
}

TEST_CASE("expert rows: choices without a place take no part, and rows without a choice stay") {
  std::vector<double> const x{1, 2, 3, 4};
  std::vector<std::int32_t> const places{2, 0, -1, 3};
  std::vector<double> buffer(8, 7), y(4), dx(8, 9), dweights(4, 9);
  std::vector<double> const weights{10, 100, 1000, 2}, addend{0.5, 0.5, 0.5, 0.5};
  on_reference([&](auto& s) {
    ops::scatter_rows(s, matrix(buffer, 4), matrix(x, 2), matrix(places, 2));
    ops::combine_rows(s, matrix(y, 2), matrix(buffer, 4), matrix(places, 2), matrix(weights, 2),
                      matrix(addend, 2));
    ops::combine_rows_backward(s, matrix(dx, 4), matrix(dweights, 2), matrix(x, 2),
                               matrix(buffer, 4), matrix(places, 2), matrix(weights, 2));
  });
  CHECK(buffer == std::vector<double>{1, 2, 7, 7, 1, 2, 3, 4});
  CHECK(y == std::vector<double>{110.5, 220.5, 6.5, 8.5});
  CHECK(dx == std::vector<double>{100, 200, 9, 9, 10, 20, 6, 8});
  CHECK(dweights == std::vector<double>{5, 5, 0, 25});
}

TEST_CASE_TEMPLATE(
    "expert rows: the host scatters the reference's bits, and combines within rounding", T, float,
    bf16, double, std::uint64_t) {
  using A = accumulate_t<T>;
  bool const is_narrow = std::is_same_v<T, bf16> || std::is_same_v<T, float>;
  for (ptrdiff_t const rows : {1, 30, 130})
    for (ptrdiff_t const top_k : {1, 2, 7})
      for (ptrdiff_t const width : {1, 3, 16, 17, 100}) {
        CAPTURE(rows);
        CAPTURE(top_k);
        CAPTURE(width);
        ptrdiff_t const copies = rows * top_k + (rows * top_k % 5 == 0 ? 1 : 0);
        auto const places = scattered(rows * top_k, copies);
        auto const x = random<T>(rows * width, 1), buffer = random<T>(copies * width, 2);
        auto const weights = random<A>(rows * top_k, 3);
        compare_host(
            {},
            [&](auto& s, auto to, auto from) {
              ops::scatter_rows(s, parallel::matrix_view<T>(to.data(), {copies, width}),
                                parallel::matrix_view<T>(from.data(), {rows, width}),
                                matrix(places, rows));
            },
            buffer, x);
        tolerance const bound{.relative = is_narrow ? 4 * unit<T> : 0,
                              .absolute = is_narrow ? 1e-4 * double(width) : 0};
        for (int const with : {0, 1, 2, 3})
          compare_host(
              bound,
              [&](auto& s, auto y) {
                ops::combine_rows(
                    s, parallel::matrix_view<T>(y.data(), {rows, width}), matrix(buffer, copies),
                    matrix(places, rows),
                    (with & 1) != 0 ? matrix(weights, rows) : parallel::matrix_view<A const>{},
                    (with & 2) != 0 ? matrix(x, rows) : parallel::matrix_view<T const>{});
              },
              random<T>(rows * width, 4));
        for (bool const in_place : {false, true})
          compare_host(
              bound,
              [&](auto& s, auto dx, auto dweights, auto results) {
                parallel::matrix_view<T> const to(in_place ? results.data() : dx.data(),
                                                  {copies, width});
                ops::combine_rows_backward(s, to,
                                           parallel::matrix_view<A>(dweights.data(), {rows, top_k}),
                                           matrix(x, rows), {results.data(), {copies, width}},
                                           matrix(places, rows), matrix(weights, rows));
              },
              random<T>(copies * width, 5), random<A>(rows * top_k, 6), buffer);
      }
}

TEST_CASE("expert rows: shapes that do not belong together are refused by name") {
  std::vector<float> room(64);
  std::vector<std::int32_t> numbers(64);
  auto const floats = [&](ptrdiff_t rows, ptrdiff_t columns) {
    return parallel::matrix_view<float>(room.data(), {rows, columns});
  };
  auto const places = [&](ptrdiff_t rows, ptrdiff_t columns) {
    return parallel::matrix_view<std::int32_t const>(numbers.data(), {rows, columns});
  };
  auto const message_of = [](auto const& call) {
    return test::message_of([&] {
      parallel::meta::stream s;
      call(s);
    });
  };
  auto const differ = [](std::string const& operation, std::string const& what, int a,
                         std::string const& other, int b) {
    return "ops::" + operation + ": " + what + " is " + std::to_string(a) + ", but " + other +
           " is " + std::to_string(b) + "; the two must be the same";
  };
  auto const scatter = [&](auto y, auto x, auto to) {
    return message_of([=](auto& s) { ops::scatter_rows(s, y, x, to); });
  };
  CHECK(scatter(floats(6, 4), floats(3, 4), places(3, 2)) == "");
  CHECK(scatter(floats(6, 5), floats(3, 4), places(3, 2)) ==
        differ("scatter_rows", "the width of y", 5, "that of x", 4));
  CHECK(scatter(floats(6, 4), floats(3, 4), places(2, 2)) ==
        differ("scatter_rows", "the number of rows of places", 2, "that of x", 3));
  auto const combine = [&](auto y, auto x, auto from, auto weights, auto addend) {
    return message_of([=](auto& s) { ops::combine_rows(s, y, x, from, weights, addend); });
  };
  CHECK(combine(floats(3, 4), floats(6, 4), places(3, 2), floats(3, 2), floats(3, 4)) == "");
  CHECK(combine(floats(3, 5), floats(6, 4), places(3, 2), floats(3, 2), floats(3, 5)) ==
        differ("combine_rows", "the width of y", 5, "that of x", 4));
  CHECK(combine(floats(3, 4), floats(6, 4), places(2, 2), floats(2, 2), floats(3, 4)) ==
        differ("combine_rows", "the number of rows of places", 2, "that of y", 3));
  CHECK(combine(floats(3, 4), floats(6, 4), places(3, 2), floats(3, 1), floats(3, 4)) ==
        "ops::combine_rows: weights and places have different extents");
  CHECK(combine(floats(3, 4), floats(6, 4), places(3, 2), floats(3, 2), floats(2, 4)) ==
        differ("combine_rows", "the number of rows of the addend", 2, "that of the result", 3));
  auto const backward = [&](auto dx, auto dweights, auto dy, auto x, auto from, auto weights) {
    return message_of(
        [=](auto& s) { ops::combine_rows_backward(s, dx, dweights, dy, x, from, weights); });
  };
  CHECK(backward(floats(6, 4), floats(3, 2), floats(3, 4), floats(6, 4), places(3, 2),
                 floats(3, 2)) == "");
  CHECK(backward(floats(6, 4), floats(3, 2), floats(3, 5), floats(6, 4), places(3, 2),
                 floats(3, 2)) ==
        differ("combine_rows_backward", "the width of dy", 5, "that of x", 4));
  CHECK(backward(floats(5, 4), floats(3, 2), floats(3, 4), floats(6, 4), places(3, 2),
                 floats(3, 2)) ==
        differ("combine_rows_backward", "the number of rows of dx", 5, "that of x", 6));
  CHECK(backward(floats(6, 4), floats(3, 2), floats(3, 4), floats(6, 4), places(2, 2),
                 floats(3, 2)) ==
        differ("combine_rows_backward", "the number of rows of places", 2, "that of dy", 3));
  CHECK(backward(floats(6, 4), floats(3, 1), floats(3, 4), floats(6, 4), places(3, 2),
                 floats(3, 2)) ==
        "ops::combine_rows_backward: weights, their gradients and places have different extents");
}

}  // namespace expert_rows_test
