// Operations by row, on ranges that begin and end anywhere.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/ops/host/rows.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "support.hpp"

namespace rows_test {

using namespace ops_support;
namespace ops = parallel::ops;
using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;

/// Each range is {first element, row width, number of elements}: whole rows, parts of rows, one
/// row, rows of one element, and an empty range.
constexpr index ranges[][3] = {{0, 5, 35}, {3, 5, 9},         {7, 33, 400},    {2, 100, 50},
                               {4, 1, 20}, {0, 40001, 40001}, {1, 768, 40001}, {5, 7, 0}};

TEST_CASE_TEMPLATE(
    "row_squared_norms: squares are summed by row, the same with any number of threads", T, float,
    bf16, double) {
  for (auto const& range : ranges) {
    CAPTURE(range[1]);
    auto const& [first, width, size] = range;
    auto const x = random<T>(size, 3);
    auto const rows = static_cast<std::size_t>((first + size) / width + 1);
    std::vector<double> expected(rows, 1.0), reference = expected, one_thread = expected,
                                             three_threads = expected;
    for (index i = 0; i < size; ++i) {
      double const value(x[static_cast<std::size_t>(i)]);
      expected[static_cast<std::size_t>((first + i) / width)] += value * value;
    }
    auto const run = [&, location = ops::rows_location{first, width}](auto& s, auto& out) {
      ops::row_squared_norms(s, std::span(out), std::span(x), location);
    };
    on_reference([&](auto& s) { run(s, reference); });
    on_host(1, [&](auto& s) { run(s, one_thread); });
    on_host(3, [&](auto& s) { run(s, three_threads); });
    CHECK(reference == expected);
    CHECK(excess(one_thread, expected, 1e-13) <= 0.0);
    CHECK(same_bits(one_thread, three_threads));
  }
}

TEST_CASE_TEMPLATE("scale_rows: rows are scaled by their factors", T, float, bf16, double) {
  for (auto const& range : ranges) {
    CAPTURE(range[1]);
    auto const& [first, width, size] = range;
    auto const x = random<T>(size, 4);
    auto const factors = random<accumulate_t<T>>((first + size) / width + 1, 5);
    auto expected = x, reference = x, host = x;
    for (index i = 0; i < size; ++i) {
      auto& element = expected[static_cast<std::size_t>(i)];
      element = static_cast<T>(accumulate_t<T>(element) *
                               factors[static_cast<std::size_t>((first + i) / width)]);
    }
    auto const run = [&, location = ops::rows_location{first, width}](auto& s, auto& data) {
      ops::scale_rows(s, std::span(data), std::span<accumulate_t<T> const>(factors), location);
    };
    on_reference([&](auto& s) { run(s, reference); });
    on_host(2, [&](auto& s) { run(s, host); });
    CHECK(same_bits(reference, expected));
    CHECK(same_bits(host, expected));
  }
}

TEST_CASE("operations by row: too few rows are refused, and the meta device counts operations") {
  std::vector<double> out(2);
  std::vector<float> x(7);
  std::string message;
  try {
    on_reference([&](auto& s) {
      ops::row_squared_norms(s, std::span(out), std::span(x), {.first = 4, .width = 5});
    });
  } catch (parallel::error const& e) {
    message = e.what();
  }
  CHECK(message == "ops::row_squared_norms: out has 2 rows, but x reaches row 2");
  parallel::meta::stream s;
  ops::row_squared_norms(s, std::span(out), std::span(x), {.first = 0, .width = 5});
  ops::scale_rows(s, std::span(x), std::span<float const>(x), {.first = 0, .width = 5});
  CHECK(s.operations() == 21);
}

}  // namespace rows_test
