// MPT's queries are scaled by the temperature of their positions and then rotated; the backward
// pass applies the two in reverse order.
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
constexpr index sequence_length = 8;

mpt::attention_positions make_positions() {
  return {.rotary = {.frequencies = ops::rope_frequencies(100.0, heads.dim)},
          .temperature_scale = 0.7,
          .temperature_floor_scale = 2.0};
}

template <class F>
std::vector<double> apply(std::vector<double> rows, index sequence, parallel::row_share share,
                          F const& f) {
  parallel::reference::stream stream;
  parallel::arena memory;
  parallel::context<parallel::reference::stream> c{stream, memory,   parallel::pass::training,
                                                   {},     sequence, share};
  f(c,
    matrix_view<double>(rows.data(), {static_cast<index>(rows.size()) / heads.row(), heads.row()}));
  return rows;
}

TEST_CASE("attention_positions: forward is ops::temperature, then ops::rope") {
  auto const input = ops_support::random<double>(2 * sequence_length * heads.row(), 1);
  auto const positions = make_positions();
  auto const got = apply(input, sequence_length, {},
                         [&](auto& c, auto x) { positions.forward(c, heads, x, 3, 0); });
  auto const expected = apply(input, sequence_length, {}, [&](auto& c, auto x) {
    ops::temperature(c.stream, heads.q(x),
                     {.scale = 0.7, .floor_scale = 2.0, .sequence = sequence_length, .first = 3});
    ops::rope(c.stream, heads.split(heads.qk(x), sequence_length),
              {.frequencies = positions.rotary.frequencies, .first = 3});
  });
  CHECK(got == expected);
}

TEST_CASE("attention_positions: two runs of a sequence's rows equal those of the whole sequence") {
  auto const row = static_cast<std::size_t>(heads.row());
  auto const input = ops_support::random<double>(sequence_length * heads.row(), 2);
  auto const positions = make_positions();
  auto const expected_rows = apply(input, sequence_length, {},
                                   [&](auto& c, auto x) { positions.forward(c, heads, x, 0, 0); });
  std::vector<double> part, expected;
  for (std::size_t const position : {2, 3, 4, 5})
    for (std::size_t i = 0; i < row; ++i) {
      part.push_back(input[position * row + i]);
      expected.push_back(expected_rows[position * row + i]);
    }
  parallel::row_share const share{.whole = sequence_length, .starts = {2, 4}, .runs = 2};
  CHECK(apply(part, 4, share, [&](auto& c, auto x) { positions.forward(c, heads, x, 0, 0); }) ==
        expected);
}

TEST_CASE("attention_positions: backward is the adjoint of forward") {
  auto const x = ops_support::random<double>(2 * sequence_length * heads.row(), 3);
  auto const g = ops_support::random<double>(2 * sequence_length * heads.row(), 4);
  auto const positions = make_positions();
  auto const y = apply(x, sequence_length, {},
                       [&](auto& c, auto rows) { positions.forward(c, heads, rows, 0, 0); });
  auto const d = apply(g, sequence_length, {},
                       [&](auto& c, auto rows) { positions.backward(c, heads, rows); });
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    forward += y[i] * g[i];
    backward += x[i] * d[i];
  }
  CHECK(forward == doctest::Approx(backward).epsilon(1e-12));
}

}  // namespace attention_positions_test
