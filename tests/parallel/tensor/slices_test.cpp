// Which rows and columns of a layer every tensor rank holds.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/tensor/slices.hpp>

namespace slices_test {

using parallel::index;
using parallel::linear;
using parallel::tensor::place;
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

TEST_CASE("on one rank a layer stays whole") {
  auto const layer = keep_outputs(place{}, dense("up", 6, 4), {{0, 6}});
  CHECK(layer.weight.whole_extents.empty());
  CHECK(layer.weight.extents == std::vector<index>{6, 4});
  auto const qkv = keep_heads(place{}, {4, 2, 3}, dense("qkv", 24, 12));
  CHECK(qkv.size() == 1);
  CHECK(qkv[0].weight.whole_extents.empty());
}

TEST_CASE("outputs are rows of weight and bias, inputs are columns of the weight alone") {
  auto const up = keep_outputs(place{1, 3}, dense("up", 6, 4), {{2, 2}});
  CHECK(up.weight.extents == std::vector<index>{2, 4});
  CHECK(rows_of(up.weight) == runs{2, 2});
  CHECK(rows_of(up.bias) == runs{2, 2});
  auto const down = keep_inputs(place{1, 3}, dense("down", 4, 6), {2, 2});
  CHECK(down.weight.extents == std::vector<index>{4, 2});
  CHECK(down.weight.first_column == 2);
  CHECK(down.bias.whole_extents.empty());
}

TEST_CASE("heads: of one matrix three ranges of rows, of three matrices one each") {
  parallel::ops::head_layout const all{.heads = 4, .kv_heads = 2, .dim = 3};  // [12 | 6 | 6]
  auto const fused = keep_heads(place{1, 2}, all, dense("qkv", 24, 12));
  CHECK(fused.size() == 1);
  CHECK(rows_of(fused[0].weight) == runs{6, 6, 15, 3, 21, 3});
  auto const apart =
      keep_heads(place{1, 2}, all, dense("q", 12, 12), dense("k", 6, 12), dense("v", 6, 12));
  CHECK(rows_of(apart[0].weight) == runs{6, 6});
  CHECK(rows_of(apart[1].weight) == runs{3, 3});
  CHECK(rows_of(apart[2].weight) == runs{3, 3});
  for (auto const& part : apart) CHECK(part.weight.copies == parallel::parameter_copies{});
  CHECK(place{1, 2}.part_of(all).heads == 2);
  CHECK(place{1, 2}.part_of(all).kv_heads == 1);
}

TEST_CASE("with fewer key heads than ranks neighbours share one, whose gradients are addends") {
  parallel::ops::head_layout const all{.heads = 8, .kv_heads = 2, .dim = 3};  // [24 | 6 | 6]
  for (index const rank : {2, 3}) {  // both use the second key head
    auto const fused = keep_heads(place{rank, 4}, all, dense("qkv", 36, 24));
    CHECK(fused.size() == 3);
    CHECK(rows_of(fused[0].weight) == runs{rank * 6, 6});
    CHECK(rows_of(fused[1].weight) == runs{27, 3});
    CHECK(rows_of(fused[2].bias) == runs{33, 3});
    CHECK(fused[0].weight.copies == parallel::parameter_copies{});
    CHECK(fused[1].weight.copies == parallel::parameter_copies{2, true});
    auto const apart =
        keep_heads(place{rank, 4}, all, dense("q", 24, 24), dense("k", 6, 24), dense("v", 6, 24));
    CHECK(rows_of(apart[1].weight) == runs{3, 3});
    CHECK(apart[2].weight.copies == parallel::parameter_copies{2, true});
  }
}

TEST_CASE("what cannot be divided is named") {
  CHECK_THROWS_WITH_AS(static_cast<void>(place{0, 3}.part_of(8, "hidden")),
                       "tensor parallelism: hidden 8 cannot be divided by 3 ranks; choose a degree "
                       "of tensor that divides it",
                       parallel::error);
}

}  // namespace slices_test
