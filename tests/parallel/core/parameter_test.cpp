#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/parameter.hpp>

namespace parameter_test {
namespace {

using parallel::bf16;
using parallel::index;
using parallel::initial_values;
using parallel::initializer;
using parallel::parameter;

std::vector<initializer> const kinds = {parallel::constant_init{2.5F}, parallel::normal_init{0.02F},
                                        parallel::uniform_init{-3.0F, 5.0F}};

template <class T>
std::vector<T> values(std::size_t count, parallel::index begin, initializer const& kind,
                      std::uint64_t seed = 1, std::string const& name = "transformer.wte.weight") {
  std::vector<T> out(count);
  initial_values(std::span<T>(out), name, kind, seed, begin);
  return out;
}

TEST_CASE("initial_values: any slice equals that part of the whole") {
  for (auto const& kind : kinds) {
    auto const whole = values<float>(1000, 0, kind);
    for (std::size_t const begin : {0, 1, 2, 3, 5, 31, 500, 998, 999, 1000})
      for (std::size_t const count : {0, 1, 2, 3, 4, 7, 64, 499}) {
        if (begin + count > whole.size()) continue;
        auto const slice = values<float>(count, static_cast<parallel::index>(begin), kind);
        CHECK(std::equal(slice.begin(), slice.end(),
                         whole.begin() + static_cast<std::ptrdiff_t>(begin)));
      }
  }
}

TEST_CASE("initial_values: values of bf16 are those of float, rounded") {
  for (auto const& kind : kinds) {
    auto const wide = values<float>(500, 7, kind);
    auto const narrow = values<bf16>(500, 7, kind);
    for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == bf16(wide[i]));
  }
}

TEST_CASE("initial_values: seed and name select the values") {
  initializer const kind = parallel::normal_init{1.0F};
  auto const base = values<float>(16, 0, kind);
  CHECK(values<float>(16, 0, kind) == base);
  CHECK(values<float>(16, 0, kind, 2) != base);
  CHECK(values<float>(16, 0, kind, 1, "transformer.wpe.weight") != base);
}

TEST_CASE("initial_values: values follow their distribution") {
  constexpr std::size_t count = 100000;
  for (float const value : values<float>(100, 0, parallel::constant_init{2.5F}))
    CHECK(value == 2.5F);

  double sum = 0.0;
  double squares = 0.0;
  for (float const value : values<float>(count, 0, parallel::normal_init{0.02F})) {
    sum += double{value};
    squares += double{value} * double{value};
  }
  CHECK(std::fabs(sum / count) < 5 * 0.02 / std::sqrt(count));
  CHECK(std::fabs(squares / count / 0.0004 - 1.0) < 5 * std::sqrt(2.0 / count));

  sum = 0.0;
  for (float const value : values<float>(count, 0, parallel::uniform_init{-3.0F, 5.0F})) {
    CHECK_MESSAGE((value > -3.0F && value < 5.0F), value);
    sum += double{value};
  }
  CHECK(std::fabs(sum / count - 1.0) < 5 * 8.0 / std::sqrt(12.0 * count));
}

TEST_CASE("parameter: has a name, extents and, once bound, values and gradients") {
  parameter<bf16, 2> weight("ffn.up_proj.weight", {3, 4});
  CHECK(weight.is_present());
  CHECK(weight.name == "ffn.up_proj.weight");
  CHECK(weight.size() == 12);
  CHECK(weight.value().data() == nullptr);
  CHECK(weight.value().extents() == parallel::shape<2>{3, 4});
  std::vector<bf16> memory(12);
  std::vector<float> gradients(12);
  weight.data = memory.data();
  weight.gradient_data = gradients.data();
  CHECK(weight.value().data() == memory.data());
  CHECK(&weight.gradient()(2, 3) == &gradients[11]);
}

TEST_CASE("parameter: without extents it is absent and empty") {
  parameter<float, 1> const bias;
  CHECK_FALSE(bias.is_present());
  CHECK(bias.size() == 0);
  CHECK(bias.value().empty());
  CHECK(bias.gradient().empty());
}

/// The position of every element of a slice in its tensor, element by element from the definition.
/// The slice has `rows` of the tensor, whose rows have `width` elements, and of each row `count`
/// columns from `first` on.
std::vector<index> tensor_positions(std::vector<parallel::row_range> const& rows, index width,
                                    index first, index count) {
  std::vector<index> out;
  for (auto const& range : rows)
    for (index row = range.begin; row < range.begin + range.count; ++row)
      for (index column = first; column < first + count; ++column)
        out.push_back(row * width + column);
  return out;
}

/// Checks for every subrange of `p` that for_each_run and for_each_row_range visit the positions
/// `expected`, in a tensor with rows of width `row_width`, in order, without a gap and in the
/// fewest runs.
void check_positions(parallel::parameter_base<float> const& p, std::vector<index> const& expected,
                     index row_width) {
  REQUIRE(p.size() == static_cast<index>(expected.size()));
  for (index first = 0; first <= p.size(); ++first)
    for (index last = first; last <= p.size(); ++last) {
      index position = first;
      index previous = -2;
      bool right = true;
      p.for_each_run(first, last, [&](index from, index count, index global) {
        right = right && from == position && count > 0 && global != previous;
        for (index i = 0; i < count; ++i, ++position)
          right = right && position < last &&
                  expected[static_cast<std::size_t>(position)] == global + i;
        previous = global + count;
      });
      right = right && position == last;
      position = first;
      p.for_each_row_range(first, last, [&](index from, index to, index row) {
        right = right && from == position;
        index const width = p.extents.size() < 2 ? 1 : p.size() / p.extents[0];
        for (; position < to; ++position)
          right = right && expected[static_cast<std::size_t>(position)] / row_width ==
                               row + position / width - from / width;
      });
      CAPTURE(first);
      CAPTURE(last);
      CHECK((right && position == last));
    }
}

TEST_CASE("parameter: ranges of slices map to the tensor as defined") {
  using parallel::row_range;
  // of 7 rows; no range begins where the one before it ends
  std::vector<std::vector<row_range>> const choices = {
      {{0, 7}}, {{2, 3}}, {{6, 1}}, {{0, 1}, {3, 2}, {6, 1}}, {{5, 2}, {0, 2}}};
  for (auto const& rows : choices) {
    CAPTURE(rows.size());
    parameter<float, 1> vector("v", {7});
    vector.keep_rows(rows);
    check_positions(vector, tensor_positions(rows, 1, 0, 1), 1);
    CHECK(vector.tensor_extents() == std::vector<index>{7});
    parameter<float, 3> cube("c", {7, 2, 2});
    cube.keep_rows(rows);
    check_positions(cube, tensor_positions(rows, 4, 0, 4), 4);
    for (auto const& column_range : std::vector<std::pair<index, index>>{{0, 4}, {0, 3}, {2, 2}}) {
      auto const& [first, count] = column_range;
      CAPTURE(column_range.first);
      parameter<float, 2> matrix("m", {7, 4});
      matrix.keep_rows(rows).keep_columns(first, count);
      check_positions(matrix, tensor_positions(rows, 4, first, count), 4);
      CHECK(matrix.tensor_extents() == std::vector<index>{7, 4});
      parameter<float, 2> other("m", {7, 4});
      other.keep_columns(first, count).keep_rows(rows);
      check_positions(other, tensor_positions(rows, 4, first, count), 4);
    }
  }
  parameter<float, 2> const whole("w", {5, 3});
  check_positions(whole, tensor_positions({{0, 5}}, 3, 0, 3), 3);
  parameter<float, 2> columns("w", {5, 3});
  columns.keep_columns(1, 2);
  check_positions(columns, tensor_positions({{0, 5}}, 3, 1, 2), 3);
}

TEST_CASE("initial_values: values of slices, run by run, equal those parts of the whole") {
  for (auto const& kind : kinds) {
    auto const whole = values<float>(7 * 4, 0, kind);
    parameter<float, 2> slice("transformer.wte.weight", {7, 4}, kind);
    slice.keep_rows({{4, 2}, {0, 3}}).keep_columns(1, 2);
    std::vector<float> out(static_cast<std::size_t>(slice.size()));
    slice.for_each_run(0, slice.size(), [&](index first, index count, index global) {
      initial_values(
          std::span(out).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
          slice.name, slice.initial, 1, global);
    });
    auto const expected = tensor_positions({{4, 2}, {0, 3}}, 4, 1, 2);
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(out[i] == whole[static_cast<std::size_t>(expected[i])]);
  }
}

TEST_CASE("parameter: slices of an absent parameter are absent") {
  parameter<float, 1> bias;
  bias.keep_rows({{0, 2}});
  CHECK_FALSE(bias.is_present());
  parameter<float, 2> weight;
  weight.keep_columns(0, 2);
  CHECK_FALSE(weight.is_present());
}

}  // namespace
}  // namespace parameter_test
