#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/train/results/tensor_list.hpp>

namespace tensor_list_test {
namespace {

using parallel::index;
using extents = std::vector<index>;

/// A layer with two slices of one tensor, some columns of another, and a whole one.
struct layer {
  parallel::parameter<float, 2> first{"qkv", {9, 4}};
  parallel::parameter<float, 2> second{"qkv", {9, 4}};
  parallel::parameter<float, 2> columns{"out", {4, 6}};
  parallel::parameter<float, 1> bias{"bias", {9}};
  layer() {
    first.keep_rows({{0, 1}, {3, 1}});
    second.keep_rows({{6, 2}});
    columns.keep_columns(2, 3);
  }
  void visit_parameters(auto&& visit) {
    visit(first);
    visit(second);
    visit(columns);
    visit(bias);
  }
};

TEST_CASE("tensor list: slices are listed once as their tensors, in the order of layers") {
  layer one;
  parallel::train::tensor_list list;
  auto const key_of = [](std::string const& name) {
    return parallel::segment_key{.trainable = name != "bias"};
  };
  list.add<float>(one, key_of);
  REQUIRE(list.size() == 2);
  CHECK(list.tensors()[0].name == "qkv");
  CHECK(list.tensors()[0].extents == extents{9, 4});
  CHECK(list.tensors()[1].name == "out");
  CHECK(list.tensors()[1].extents == extents{4, 6});
  CHECK(list.number_of("qkv") == 0);
  CHECK(list.number_of("out") == 1);
  CHECK_THROWS_AS((void)list.number_of("bias"), std::out_of_range);  // frozen
  list.add<float>(one, parallel::one_segment{});                     // a later layer
  REQUIRE(list.size() == 3);
  CHECK(list.number_of("bias") == 2);
  CHECK(list.tensors()[2].extents == extents{9});
}

}  // namespace
}  // namespace tensor_list_test
