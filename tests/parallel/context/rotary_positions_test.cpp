// Queries and keys of a part of a sequence are turned as those of the whole; backward undoes what
// keeps lengths.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <parallel/context/rotary_positions.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace rotary_positions_test {

using parallel::index;
using parallel::matrix_view;
using parallel::context_parallel::rotary_positions;
namespace ops = parallel::ops;

constexpr ops::head_layout heads{.heads = 2, .kv_heads = 1, .dim = 4};
constexpr index whole = 8;

rotary_positions some(bool grows) {
  rotary_positions out{.frequencies = ops::rope_frequencies(100.0, heads.dim)};
  if (grows) out.growths = {0.01, 0.02}, out.origin = 3;
  return out;
}

/// Two sequences, turned by `f(context, rows)`; `share`: which of their rows these are.
template <class F>
void on(std::vector<double>& rows, index sequence, parallel::row_share share, F const& f) {
  parallel::reference::stream stream;
  parallel::arena memory;
  parallel::context<parallel::reference::stream> c{stream, memory,   parallel::pass::training,
                                                   {},     sequence, share};
  f(c, matrix_view<double>(rows.data(), {2 * sequence, heads.row()}));
}

TEST_CASE("a head and a tail of a sequence are turned as in the whole, values are left alone") {
  auto const row = static_cast<std::size_t>(heads.row());
  auto const before = ops_support::random<double>(2 * whole * heads.row(), 1);
  for (bool const grows : {false, true}) {
    auto const turned = some(grows);
    auto all = before;
    on(all, whole, {}, [&](auto& c, auto x) { turned.forward(c, heads, x, 0); });
    std::vector<double> part, expected;
    for (std::size_t const at : {2, 3, 6, 7, 10, 11, 14, 15}) {
      auto const begin = static_cast<std::ptrdiff_t>(at * row);
      part.insert(part.end(), before.begin() + begin,
                  before.begin() + begin + static_cast<std::ptrdiff_t>(row));
      expected.insert(expected.end(), all.begin() + begin,
                      all.begin() + begin + static_cast<std::ptrdiff_t>(row));
    }
    on(part, 4, {.whole = whole, .starts = {2, 6}, .runs = 2},
       [&](auto& c, auto x) { turned.forward(c, heads, x, 0); });
    CHECK(part == expected);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i % row >= row - 4) CHECK(all[i] == before[i]);  // v
    CHECK(all != before);
  }
}

TEST_CASE("the gradient is the transpose: turned forward and back nothing has moved") {
  auto const before = ops_support::random<double>(2 * whole * heads.row(), 2);
  auto x = before;
  auto const turned = some(false);
  on(x, whole, {}, [&](auto& c, auto rows) {
    turned.forward(c, heads, rows, 0);
    turned.backward(c, heads, rows);
  });
  CHECK(ops_support::excess(x, before, 0.0) <= 1e-14);
}

TEST_CASE("without keys of its own a layer's queries are turned as beside keys") {
  auto const turned = some(true);
  auto const queries = [](std::vector<double> const& rows, index width) {
    std::vector<double> out;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<index>(i) % width < heads.width()) out.push_back(rows[i]);
    return out;
  };
  auto packed = ops_support::random<double>(2 * whole * heads.row(), 3);
  auto alone = queries(packed, heads.row());
  on(packed, whole, {}, [&](auto& c, auto x) { turned.forward(c, heads, x, 5); });
  on(alone, whole, {}, [&](auto& c, auto) {
    turned.forward(c, {.heads = heads.heads, .kv_heads = 0, .dim = heads.dim},
                   matrix_view<double>(alone.data(), {2 * whole, heads.width()}), 5);
  });
  CHECK(alone == queries(packed, heads.row()));
}

TEST_CASE("without frequencies nothing is turned") {
  auto const before = ops_support::random<double>(2 * whole * heads.row(), 4);
  auto x = before;
  on(x, whole, {}, [&](auto& c, auto rows) { rotary_positions{}.forward(c, heads, rows, 0); });
  CHECK(x == before);
}

}  // namespace rotary_positions_test
