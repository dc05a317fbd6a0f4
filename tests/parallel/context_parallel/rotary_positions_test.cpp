// Queries and keys of a part of a sequence are rotated as those of the whole; the backward pass
// inverts a rotation that keeps lengths.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/context_parallel/rotary_positions.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace rotary_positions_test {

using parallel::index;
using parallel::matrix_view;
using parallel::context_parallel::rotary_positions;
namespace ops = parallel::ops;

constexpr ops::head_layout heads{.heads = 2, .kv_heads = 1, .dim = 4};
constexpr index whole = 8;

rotary_positions make_positions(bool grows) {
  rotary_positions out{.frequencies = ops::rope_frequencies(100.0, heads.dim)};
  if (grows) out.growths = {0.01, 0.02}, out.origin = 3;
  return out;
}

/// Calls f(context, rows) for two sequences; `share`: the part of their rows in `rows`.
template <class F>
void run_on_rows(std::vector<double>& rows, index sequence, parallel::row_share share, F const& f) {
  parallel::reference::stream stream;
  parallel::arena memory;
  parallel::context<parallel::reference::stream> c{stream, memory,   parallel::pass::training,
                                                   {},     sequence, share};
  f(c, matrix_view<double>(rows.data(), {2 * sequence, heads.row()}));
}

TEST_CASE(
    "rotary positions: two parts of a sequence are rotated as in the whole, values are unchanged") {
  auto const row = static_cast<std::size_t>(heads.row());
  auto const original = ops_support::random<double>(2 * whole * heads.row(), 1);
  for (bool const grows : {false, true}) {
    auto const positions = make_positions(grows);
    auto rotated = original;
    run_on_rows(rotated, whole, {}, [&](auto& c, auto x) { positions.forward(c, heads, x, 0); });
    std::vector<double> part, expected;
    for (std::size_t const row_number : {2, 3, 6, 7, 10, 11, 14, 15}) {
      auto const begin = static_cast<std::ptrdiff_t>(row_number * row);
      part.insert(part.end(), original.begin() + begin,
                  original.begin() + begin + static_cast<std::ptrdiff_t>(row));
      expected.insert(expected.end(), rotated.begin() + begin,
                      rotated.begin() + begin + static_cast<std::ptrdiff_t>(row));
    }
    run_on_rows(part, 4, {.whole = whole, .starts = {2, 6}, .runs = 2},
                [&](auto& c, auto x) { positions.forward(c, heads, x, 0); });
    CHECK(part == expected);
    for (std::size_t i = 0; i < rotated.size(); ++i)
      if (i % row >= row - 4) CHECK(rotated[i] == original[i]);  // v
    CHECK(rotated != original);
  }
}

TEST_CASE("rotary positions: the backward pass is the transpose, which inverts the rotation") {
  auto const original = ops_support::random<double>(2 * whole * heads.row(), 2);
  auto x = original;
  auto const positions = make_positions(false);
  run_on_rows(x, whole, {}, [&](auto& c, auto rows) {
    positions.forward(c, heads, rows, 0);
    positions.backward(c, heads, rows);
  });
  CHECK(ops_support::excess(x, original, 0.0) <= 1e-14);
}

TEST_CASE("rotary positions: queries without keys are rotated as with keys") {
  auto const positions = make_positions(true);
  auto const queries = [](std::vector<double> const& rows, index width) {
    std::vector<double> out;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<index>(i) % width < heads.width()) out.push_back(rows[i]);
    return out;
  };
  auto packed = ops_support::random<double>(2 * whole * heads.row(), 3);
  auto queries_only = queries(packed, heads.row());
  run_on_rows(packed, whole, {}, [&](auto& c, auto x) { positions.forward(c, heads, x, 5); });
  run_on_rows(queries_only, whole, {}, [&](auto& c, auto) {
    positions.forward(c, {.heads = heads.heads, .kv_heads = 0, .dim = heads.dim},
                      matrix_view<double>(queries_only.data(), {2 * whole, heads.width()}), 5);
  });
  CHECK(queries_only == queries(packed, heads.row()));
}

TEST_CASE("rotary positions: sequences longer than short_length have frequencies of their own") {
  auto const original = ops_support::random<double>(2 * whole * heads.row(), 5);
  auto const other = ops::rope_frequencies(7.0, heads.dim);
  auto positions = make_positions(false);
  auto const rotate = [&](rotary_positions const& chosen, index length) {
    auto x = original;
    run_on_rows(x, whole, {},
                [&](auto& c, auto rows) { chosen.forward(c, heads, rows, 0, length); });
    return x;
  };
  auto const short_rows = rotate(positions, whole);
  auto const long_rows = rotate({.frequencies = other}, whole);
  positions.long_frequencies = other;
  positions.short_length = whole;
  CHECK(rotate(positions, whole) == short_rows);
  CHECK(rotate(positions, whole + 1) == long_rows);
  positions.short_length = whole - 1;
  auto inverse = long_rows;
  run_on_rows(inverse, whole, {}, [&](auto& c, auto rows) { positions.backward(c, heads, rows); });
  CHECK(ops_support::excess(inverse, original, 0.0) <= 1e-14);
}

TEST_CASE("rotary positions: a scale multiplies what is turned, and its gradient") {
  auto const original = ops_support::random<double>(2 * whole * heads.row(), 6);
  auto positions = make_positions(false);
  auto rows = original, scaled = original;
  run_on_rows(rows, whole, {}, [&](auto& c, auto x) { positions.forward(c, heads, x, 0); });
  positions.scale = 2;
  run_on_rows(scaled, whole, {}, [&](auto& c, auto x) { positions.forward(c, heads, x, 0); });
  auto const row = static_cast<std::size_t>(heads.row());
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(scaled[i] == (i % row >= row - 4 ? 1 : 2) * rows[i]);
  run_on_rows(scaled, whole, {}, [&](auto& c, auto x) { positions.backward(c, heads, x); });
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i % row < row - 4) CHECK(scaled[i] == doctest::Approx(4 * original[i]).epsilon(1e-12));
}

TEST_CASE("rotary positions: without frequencies nothing is rotated") {
  auto const original = ops_support::random<double>(2 * whole * heads.row(), 4);
  auto x = original;
  run_on_rows(x, whole, {},
              [&](auto& c, auto rows) { rotary_positions{}.forward(c, heads, rows, 0); });
  CHECK(x == original);
}

}  // namespace rotary_positions_test
