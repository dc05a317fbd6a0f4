#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/unit/unit.hpp>

namespace unit_test {
namespace {

using parallel::bf16;
using parallel::index;
using parallel::parameter;
using parallel::parameter_base;
using parallel::unit;

/// Three parameters of awkward sizes: 5, 64 and 33 elements.
template <class T>
struct toy {
  parameter<T, 1> a{"a", {5}};
  parameter<T, 2> b{"b", {8, 8}};
  parameter<T, 3> c{"c", {3, 1, 11}};
  void visit_parameters(auto&& visit) {
    visit(a);
    visit(b);
    visit(c);
  }
};

struct table {
  parameter<float, 2> weight{"wte.weight", {10, 4}};
  void visit_parameters(auto&& visit) { visit(weight); }
};

struct bare {
  void visit_parameters(auto&&) {}
};

TEST_CASE("unit: parameters follow one another in declaration order, each aligned") {
  toy<bf16> layer;
  unit<bf16> const u("block", layer, 1);
  REQUIRE(u.segments().size() == 1);
  auto const& segment = u.segments()[0];
  CHECK(u.name() == "block");
  CHECK(segment.key.trainable);
  REQUIRE(segment.parameters.size() == 3);
  CHECK(segment.parameters[0].parameter == &layer.a);
  CHECK(segment.parameters[0].offset == 0);
  CHECK(segment.parameters[1].parameter == &layer.b);
  CHECK(segment.parameters[1].offset == 32);
  CHECK(segment.parameters[2].parameter == &layer.c);
  CHECK(segment.parameters[2].offset == 96);
  CHECK(segment.size == 160);
  CHECK(u.size() == 160);
  CHECK(u.uses() == 1);
}

TEST_CASE("unit: a segment divides among any number of ranks into aligned shards") {
  toy<float> layer;
  for (index ranks = 1; ranks <= 9; ++ranks) {
    unit<float> const u("block", layer, ranks);
    CHECK(u.size() % (ranks * unit<float>::alignment) == 0);
    CHECK(u.size() >= 160);
    CHECK(u.size() < 160 + ranks * unit<float>::alignment);
    CHECK(u.segments()[0].parameters[2].offset == 96);  // padding comes after, the layout stays
  }
}

TEST_CASE("unit: a number of ranks that is not positive is refused") {
  table layer;
  CHECK_THROWS_WITH_AS(unit<float>("tokens", layer, 0),
                       "unit tokens: number of ranks must be positive", parallel::error);
}

TEST_CASE("unit: binding points parameters into flat memory") {
  toy<bf16> layer;
  unit<bf16> u("block", layer, 2);
  std::vector<bf16> values(static_cast<std::size_t>(u.size()));
  std::vector<float> gradients(static_cast<std::size_t>(u.size()));
  u.bind_values(0, values.data());
  u.bind_gradients(0, 0, gradients.data());
  CHECK(layer.a.value().data() == values.data());
  CHECK(layer.b.value().data() == values.data() + 32);
  CHECK(layer.c.gradient().data() == gradients.data() + 96);
  CHECK(&layer.c.gradient()(2, 0, 10) == &gradients[128]);
}

TEST_CASE(
    "unit: the pieces of consecutive ranges cover each parameter element once and no padding") {
  toy<float> layer;
  unit<float> const u("block", layer, 3);
  auto const& segment = u.segments()[0];
  using element_position = std::tuple<std::string, index, index>;  // name, element, offset

  std::vector<element_position> expected;
  for (auto const& [p, offset] : segment.parameters)
    for (index i = 0; i < p->size(); ++i) expected.emplace_back(p->name, i, offset + i);

  for (index const step : {1, 7, 31, 32, 33, 64, 1000}) {
    std::vector<element_position> found;
    for (index begin = 0; begin < segment.size; begin += step)
      segment.for_each_piece(
          begin, std::min(begin + step, segment.size),
          [&](parameter_base<float> const& p, index first, index last, index offset) {
            CHECK(first < last);
            CHECK(offset >= begin);
            for (index i = first; i < last; ++i) found.emplace_back(p.name, i, offset + i - first);
          });
    CHECK_MESSAGE(found == expected, "step ", step);
  }
  segment.for_each_piece(5, 32, [](auto const&...) { FAIL("padding is no piece"); });
  segment.for_each_piece(50, 50, [](auto const&...) { FAIL("an empty range has no piece"); });
}

TEST_CASE("unit: a tied parameter shares its values and has a gradient buffer for each use") {
  table layer;
  parameter<float, 2> head = layer.weight;
  unit<float> u("tokens", layer, 2);
  u.add_use(head);
  CHECK(u.uses() == 2);
  CHECK(u.size() == 64);  // values count once
  std::vector<float> values(64);
  std::vector<float> first(64);
  std::vector<float> second(64);
  u.bind_values(0, values.data());
  u.bind_gradients(0, 0, first.data());
  u.bind_gradients(0, 1, second.data());
  CHECK(layer.weight.value().data() == values.data());
  CHECK(head.value().data() == values.data());
  CHECK(layer.weight.gradient().data() == first.data());
  CHECK(head.gradient().data() == second.data());
}

TEST_CASE("unit: only a unit of one parameter can be tied, and only to the same shape") {
  toy<float> three_parameters;
  table one_parameter;
  unit<float> blocks("block", three_parameters, 1);
  unit<float> tokens("tokens", one_parameter, 1);
  parameter<float, 2> other("lm_head.weight", {4, 10});
  CHECK_THROWS_WITH_AS(blocks.add_use(three_parameters.b),
                       "unit block: only a unit of one parameter can be tied", parallel::error);
  CHECK_THROWS_WITH_AS(tokens.add_use(other), "unit tokens: tied parameters differ in shape",
                       parallel::error);
  CHECK(tokens.uses() == 1);
}

TEST_CASE("unit: a layer without parameters makes an empty unit") {
  bare layer;
  unit<float> const u("nothing", layer, 4);
  CHECK(u.size() == 0);
  CHECK(u.segments().empty());
}

}  // namespace
}  // namespace unit_test
