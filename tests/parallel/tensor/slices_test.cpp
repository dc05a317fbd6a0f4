// The rows and columns of a layer that every tensor rank holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <parallel/tensor/slices.hpp>

namespace slices_test {

using parallel::index;
using parallel::linear;
using parallel::tensor::axis_position;
using parallel::tensor::columns_of_keys;
using parallel::tensor::columns_of_queries;
using runs = std::vector<index>;  // begin, count, begin, count, ...

linear<float> dense(std::string const& name, index out, index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}

runs rows_of(auto const& parameter) {
  runs out;
  for (auto const& range : parameter.rows) {
    out.push_back(range.begin);
    out.push_back(range.count);
  }
  return out;
}

TEST_CASE("tensor slices: on one rank a layer stays whole") {
  auto const layer = keep_outputs(axis_position{}, dense("up", 6, 4), {{0, 6}});
  CHECK(layer.weight.whole_extents.empty());
  CHECK(layer.weight.extents == std::vector<index>{6, 4});
  auto const qkv = keep_heads(axis_position{}, {4, 2, 3}, dense("qkv", 24, 12));
  CHECK(qkv.size() == 1);
  CHECK(qkv[0].weight.whole_extents.empty());
}

TEST_CASE(
    "tensor slices: outputs are rows of weight and bias, inputs are columns of the weight alone") {
  auto const up = keep_outputs(axis_position{1, 3}, dense("up", 6, 4), {{2, 2}});
  CHECK(up.weight.extents == std::vector<index>{2, 4});
  CHECK(rows_of(up.weight) == runs{2, 2});
  CHECK(rows_of(up.bias) == runs{2, 2});
  auto const down = keep_inputs(axis_position{1, 3}, dense("down", 4, 6), {2, 2});
  CHECK(down.weight.extents == std::vector<index>{4, 2});
  CHECK(down.weight.first_column == 2);
  CHECK(down.bias.whole_extents.empty());
  auto const columns = keep_columns(axis_position{1, 3}, dense("own", 4, 6).weight, {2, 2});
  CHECK(columns.extents == down.weight.extents);
  CHECK(columns.first_column == 2);
  CHECK(keep_columns(axis_position{}, dense("own", 4, 6).weight, {0, 6}).whole_extents.empty());
}

TEST_CASE(
    "tensor slices: heads are three row ranges of one matrix, or one range of each of three "
    "matrices") {
  parallel::ops::head_layout const layout{.heads = 4, .kv_heads = 2, .dim = 3};  // [12 | 6 | 6]
  auto const fused = keep_heads(axis_position{1, 2}, layout, dense("qkv", 24, 12));
  CHECK(fused.size() == 1);
  CHECK(rows_of(fused[0].weight) == runs{6, 6, 15, 3, 21, 3});
  auto const separate = keep_heads(axis_position{1, 2}, layout, dense("q", 12, 12),
                                   dense("k", 6, 12), dense("v", 6, 12));
  CHECK(rows_of(separate[0].weight) == runs{6, 6});
  CHECK(rows_of(separate[1].weight) == runs{3, 3});
  CHECK(rows_of(separate[2].weight) == runs{3, 3});
  for (auto const& part : separate)
    CHECK(part.weight.replication == parallel::parameter_replication{});
  CHECK(axis_position{1, 2}.part_of(layout).heads == 2);
  CHECK(axis_position{1, 2}.part_of(layout).kv_heads == 1);
}

TEST_CASE(
    "tensor slices: with fewer key heads than ranks neighbours share one, whose gradients are "
    "addends") {
  parallel::ops::head_layout const layout{.heads = 8, .kv_heads = 2, .dim = 3};  // [24 | 6 | 6]
  for (index const rank : {2, 3}) {  // both use the second key head
    auto const fused = keep_heads(axis_position{rank, 4}, layout, dense("qkv", 36, 24));
    CHECK(fused.size() == 3);
    CHECK(rows_of(fused[0].weight) == runs{rank * 6, 6});
    CHECK(rows_of(fused[1].weight) == runs{27, 3});
    CHECK(rows_of(fused[2].bias) == runs{33, 3});
    CHECK(fused[0].weight.replication == parallel::parameter_replication{});
    CHECK(fused[1].weight.replication == parallel::parameter_replication{2, true});
    auto const separate = keep_heads(axis_position{rank, 4}, layout, dense("q", 24, 24),
                                     dense("k", 6, 24), dense("v", 6, 24));
    CHECK(rows_of(separate[1].weight) == runs{3, 3});
    CHECK(separate[2].weight.replication == parallel::parameter_replication{2, true});
  }
}

runs parts_of(index ranks, auto const& part) {
  runs out;
  for (index r = 0; r < ranks; ++r) {
    parallel::row_range const range = part(axis_position{r, ranks});
    out.insert(out.end(), {range.begin, range.count});
  }
  return out;
}

TEST_CASE("tensor slices: parts differ by one where the ranks do not divide the count") {
  CHECK(parts_of(5, [](axis_position position) { return position.part_of(12, "rows"); }) ==
        runs{0, 3, 3, 3, 6, 2, 8, 2, 10, 2});
  CHECK(parts_of(3, [](axis_position position) { return position.part_of(6, "rows"); }) ==
        runs{0, 2, 2, 2, 4, 2});
  CHECK(parts_of(3, [](axis_position position) { return position.part_of(3, "rows"); }) ==
        runs{0, 1, 1, 1, 2, 1});
}

TEST_CASE("tensor slices: long parts begin at multiples of 8") {
  auto const words = [](axis_position position) { return position.part_of(50277, "words"); };
  CHECK(parts_of(2, words) == runs{0, 25144, 25144, 25133});
  CHECK(parts_of(3, [](axis_position position) { return position.part_of(50368, "words"); }) ==
        runs{0, 16792, 16792, 16792, 33584, 16784});
  CHECK(parts_of(2, [](axis_position position) { return position.part_of(2004, "rows"); }) ==
        runs{0, 1002, 1002, 1002});  // equal parts stay equal
  for (index const ranks : {4, 7, 64, 97, 98, 99}) {
    index end = 0;
    index smallest = 50277, largest = 0;
    for (index r = 0; r < ranks; ++r) {
      auto const part = words({r, ranks});
      CHECK(part.begin == end);
      CHECK((part.begin % 8 == 0 || 50277 / ranks < 512));
      CHECK(part.count <= words({0, ranks}).count);
      end = part.begin + part.count;
      smallest = std::min(smallest, part.count);
      largest = std::max(largest, part.count);
    }
    CHECK(end == 50277);
    CHECK(largest - smallest <= 15);
  }
}

TEST_CASE("tensor slices: query heads are on the rank of their key head") {
  auto const queries = [](index ranks, index heads, index kv_heads) {
    return parts_of(ranks, [&](axis_position position) {
      return position.queries_of({.heads = heads, .kv_heads = kv_heads, .dim = 2});
    });
  };
  CHECK(queries(8, 12, 12) == runs{0, 2, 2, 2, 4, 2, 6, 2, 8, 1, 9, 1, 10, 1, 11, 1});
  CHECK(queries(3, 14, 7) == runs{0, 6, 6, 4, 10, 4});  // two for each of 3, 2 and 2 key heads
  CHECK(queries(4, 14, 2) == runs{0, 4, 4, 3, 7, 4, 11, 3});  // two ranks a key head
  CHECK(queries(3, 7, 1) == runs{0, 3, 3, 2, 5, 2});
  parallel::ops::head_layout const layout{.heads = 14, .kv_heads = 7, .dim = 2};
  CHECK(axis_position{1, 3}.part_of(layout).heads == 4);
  CHECK(axis_position{1, 3}.part_of(layout).kv_heads == 2);
  auto const fused = keep_heads(axis_position{1, 3}, layout, dense("qkv", layout.row(), 12));
  CHECK(rows_of(fused[0].weight) == runs{12, 8, 28 + 6, 4, 28 + 14 + 6, 4});
  CHECK(columns_of_keys(3, layout)[2].begin == 10);
  CHECK(columns_of_queries(3, layout)[2].begin == 20);
}

TEST_CASE("tensor slices: a count too small for the ranks is refused with possible degrees") {
  CHECK_THROWS_WITH_AS(static_cast<void>(axis_position{0, 9}.part_of(8, "hidden")),
                       "tensor parallelism: hidden 8 is not enough for 9 ranks; choose a degree of "
                       "tensor of at most 8",
                       parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(axis_position{0, 6}.heads_of(4)),
      "tensor parallelism: 6 ranks cannot share the number of key heads 4 equally; "
      "choose a degree of tensor of at most 4, or a multiple of it",
      parallel::error);
}

}  // namespace slices_test
