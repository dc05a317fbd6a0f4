// Exact ring tests of freezing and optimizer groups: every data-parallel layout equals one rank bit
// for bit, frozen parameters keep their values and cost nothing, and each group has its own
// optimizer.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/comm/single.hpp>

#include "support/ring/ring_run.hpp"

namespace optimizer_groups_test {

using test::layout;
using test::outcome;
using test::ring;
using test::run;
namespace zero = parallel::zero;

using names = std::vector<std::string>;

/// The values of a parameter before the first step.
std::vector<ring> initial(std::string const& name, std::size_t size) {
  std::vector<ring> out(size);
  parallel::initial_values(std::span(out), name, test::ring_model::any_number, 42, 0);
  return out;
}

TEST_CASE(
    "optimizer groups: every layout with frozen parameters and groups equals one rank bit for "
    "bit") {
  struct {
    names frozen, second_group;
  } const cases[] = {
      {{"wte"}, {}},                             // the tied embedding, both its uses
      {{"bias"}, {"wte"}},                       // a part of every unit
      {{"block.1."}, {"weight"}},                // a whole unit
      {{"block.0.mix", "up.weight"}, {"bias"}},  // a unit with three segments
  };
  int layouts = 0;
  for (auto const& [frozen, second] : cases) {
    outcome const expected =
        run({.microbatch = test::global_batch, .frozen = frozen, .second_group = second});
    REQUIRE(expected.ranks_agree);
    REQUIRE(expected.frozen_is_lean);
    REQUIRE(expected.gradients.size() < expected.parameters.size());
    for (auto const& entry : expected.parameters) {
      auto const& [name, values] = entry;
      CAPTURE(entry.first);
      CHECK((values == initial(name, values.size())) == !expected.gradients.contains(name));
    }
    for (int const ranks : {1, 2, 3, 5, 8})
      for (auto const level : {zero::level::none, zero::level::optimizer})
        for (std::size_t const bucket : {std::size_t{1}, std::size_t{1} << 30}) {
          CAPTURE(ranks);
          CAPTURE(static_cast<int>(level));
          CHECK(run({.ranks = ranks,
                     .level = level,
                     .microbatch = 2,
                     .bucket_bytes = bucket,
                     .frozen = frozen,
                     .second_group = second}) == expected);
          ++layouts;
        }
  }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

TEST_CASE("optimizer groups: freezing a parameter changes no gradient of the others") {
  outcome const all_trained = run({.num_steps = 1});
  outcome const partly_frozen = run({.frozen = {"wte", "block.1.up", "bias"}, .num_steps = 1});
  CHECK(partly_frozen.losses == all_trained.losses);
  REQUIRE(partly_frozen.gradients.size() == 3 * 7);
  for (auto const& [name, gradient] : partly_frozen.gradients)
    CHECK(gradient == all_trained.gradients.at(name));
}

TEST_CASE("optimizer groups: each group is updated by its own optimizer") {
  outcome const out = run({.ranks = 2, .second_group = {"bias"}, .num_steps = 1});
  for (auto const& entry : out.parameters) {
    auto const& [name, values] = entry;
    CAPTURE(entry.first);
    ring const rate = name.ends_with("bias") ? 11 : 5;
    auto expected = initial(name, values.size());
    auto const& gradient = out.gradients.at(name);
    bool const is_whole = gradient.size() == values.size();
    REQUIRE(is_whole);
    for (std::size_t i = 0; i < values.size(); ++i) expected[i] -= rate * gradient[i];
    CHECK(values == expected);
  }
}

TEST_CASE("optimizer groups: a group without an optimizer is refused") {
  parallel::host::device device;
  parallel::single alone;
  test::ring_model model(1, 4, test::vocabulary);
  parallel::train::optimizer_groups<test::ring_momentum> const groups{
      {test::ring_momentum{}},
      [](std::string const&) { return parallel::segment_key{.group = 1}; }};
  CHECK_THROWS_WITH_AS(
      (parallel::train::stepper<test::ring_model, parallel::host::device, parallel::single,
                                test::ring_momentum>(model, device, alone, groups, {})),
      "unit tokens: a parameter is in optimizer group 1, but the number of groups is 1; groups are "
      "counted from 0",
      parallel::error);
}

}  // namespace optimizer_groups_test
