// What positions do to an MPT's queries: they grow, then they are turned; the gradient goes the
// other way.
#include <doctest/doctest.h>

#include <vector>

#include <mpt/model/attention_positions.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace attention_positions_test {

using parallel::index;
using parallel::matrix_view;
namespace ops = parallel::ops;

constexpr ops::head_layout heads{.heads = 2, .kv_heads = 2, .dim = 4};
constexpr index whole = 8;

mpt::attention_positions some() {
  return {.rotary = {.frequencies = ops::rope_frequencies(100.0, heads.dim)},
          .temperature = 0.7,
          .temperature_floor = 2.0};
}

template <class F>
std::vector<double> on(std::vector<double> rows, index sequence, parallel::row_share share,
                       F const& f) {
  parallel::reference::stream stream;
  parallel::arena memory;
  parallel::context<parallel::reference::stream> c{stream, memory,   parallel::pass::training,
                                                   {},     sequence, share};
  f(c,
    matrix_view<double>(rows.data(), {static_cast<index>(rows.size()) / heads.row(), heads.row()}));
  return rows;
}

TEST_CASE("it is the temperature of ops::temperature, then the rotation of ops::rope") {
  auto const before = ops_support::random<double>(2 * whole * heads.row(), 1);
  auto const what = some();
  auto const got = on(before, whole, {}, [&](auto& c, auto x) { what.forward(c, heads, x, 3); });
  auto const expected = on(before, whole, {}, [&](auto& c, auto x) {
    ops::temperature(c.stream, heads.q(x),
                     {.scale = 0.7, .floor_scale = 2.0, .sequence = whole, .first = 3});
    ops::rope(c.stream, heads.split(heads.qk(x), whole),
              {.frequencies = what.rotary.frequencies, .first = 3});
  });
  CHECK(got == expected);
}

TEST_CASE("a head and a tail of a sequence meet what they meet in the whole") {
  auto const row = static_cast<std::size_t>(heads.row());
  auto const before = ops_support::random<double>(whole * heads.row(), 2);
  auto const what = some();
  auto const all = on(before, whole, {}, [&](auto& c, auto x) { what.forward(c, heads, x, 0); });
  std::vector<double> part, expected;
  for (std::size_t const at : {2, 3, 4, 5})
    for (std::size_t i = 0; i < row; ++i) {
      part.push_back(before[at * row + i]);
      expected.push_back(all[at * row + i]);
    }
  parallel::row_share const share{.whole = whole, .starts = {2, 4}, .runs = 2};
  CHECK(on(part, 4, share, [&](auto& c, auto x) { what.forward(c, heads, x, 0); }) == expected);
}

TEST_CASE("<forward x, g> is <x, backward g>") {
  auto const x = ops_support::random<double>(2 * whole * heads.row(), 3);
  auto const g = ops_support::random<double>(2 * whole * heads.row(), 4);
  auto const what = some();
  auto const y = on(x, whole, {}, [&](auto& c, auto rows) { what.forward(c, heads, rows, 0); });
  auto const d = on(g, whole, {}, [&](auto& c, auto rows) { what.backward(c, heads, rows); });
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    forward += y[i] * g[i];
    backward += x[i] * d[i];
  }
  CHECK(forward == doctest::Approx(backward).epsilon(1e-12));
}

}  // namespace attention_positions_test
