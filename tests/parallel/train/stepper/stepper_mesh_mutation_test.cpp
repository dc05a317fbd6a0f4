// Mutation of mixed layouts, one for each strategy and one with all axes: every collective and
// message that is dropped, doubled or divided, on all ranks or on one, changes the outcome.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/ring/ring_mutation.hpp"

namespace stepper_mesh_mutation_test {

using parallel::context_parallel::method;
using test::layout;
namespace zero = parallel::zero;

struct named_layout {
  std::string name;
  layout run_layout;
};

std::vector<named_layout> layouts() {
  layout small{
      .microbatch = 1,
      .bucket_bytes = 2000,
      .num_steps = 1,
      .model = {.attention = {.heads = 6, .key_heads = 3}, .blocks = 2, .head_dim = 2, .hidden = 6},
      .sizes = {.vocabulary = 6, .length = 12, .batch = 4}};
  std::vector<named_layout> out;
  auto const add = [&](std::string name, auto&& change) {
    layout run_layout = small;
    change(run_layout);
    out.push_back({std::move(name), run_layout});
  };
  add("tensor", [](layout& l) {
    l.tensor = 3;
    l.replicas = 2;
    l.model.attention.key_heads = 1;  // all heads share one key head
  });
  add("tensor, rows divided", [](layout& l) {
    l.tensor = 3;
    l.replicas = 2;
    l.divide_rows = true;
    l.model.gated = true;
  });
  add("tensor, unequal slices", [](layout& l) {
    l.tensor = 3;
    l.replicas = 2;
    l.divide_rows = true;
    l.model.hidden = 7;
    l.model.attention = {.heads = 8, .key_heads = 4};
    l.sizes.vocabulary = 8;
    l.sizes.batch = 5;
  });
  add("context by the ring", [](layout& l) { l.context = 3; });
  add("context by the exchange of heads", [](layout& l) {
    l.context = 3;
    l.model.attention.method = method::ulysses;
  });
  add("ZeRO-2 along context alone", [](layout& l) {
    l.context = 3;
    l.level = zero::level::gradients;
    l.sizes.width = 72;
  });
  add("pipeline x replicas, tied", [](layout& l) { l.pipeline = l.replicas = 2; });
  add("pipeline of V form x replicas, tied", [](layout& l) {
    l.pipeline = l.replicas = 2;
    l.model.blocks = 4;
    l.schedule.schedule = "zb-v";
  });
  add("ZeRO-3 x replicas", [](layout& l) {
    l.ranks = l.replicas = 2;
    l.level = zero::level::parameters;
    l.sizes.batch = 8;
    l.sizes.width = 72;  // no shard consists of padding only
    l.measure = true;
  });
  add("all axes", [](layout& l) {
    l.ranks = l.pipeline = l.context = l.tensor = 2;
    l.divide_rows = true;
    l.level = zero::level::parameters;
    l.sizes.length = 8;
    l.sizes.width = 104;
    l.model.attention.key_heads = 6;
  });
  return out;
}

/// Runs at most `max_count` mutants of each layout, evenly spread.
void check(std::size_t max_count) {
  for (auto const& [name, run_layout] : layouts()) {
    auto const sound = test::run(run_layout);
    CHECK(difference(sound, test::run(single_rank_config(run_layout))) == "");
    auto const calls = test::calls_of(run_layout);
    auto const mutants = test::all_mutants(calls);
    auto const count = std::min(max_count, mutants.size());
    std::size_t survivors = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto const& one = mutants[(2 * i + 1) * mutants.size() / (2 * count)];
      if (is_noticed(run_layout, one, sound)) continue;
      ++survivors;
      FAIL_CHECK(name << ": nobody notices " << test::text(one, calls));
    }
    MESSAGE(name << ": " << count - survivors << " mutants caught of " << count << " tried, of "
                 << mutants.size());
  }
}

TEST_CASE(
    "stepper mutation: a sample of dropped, doubled and divided calls of mixed layouts shows") {
  check(40);
}
TEST_CASE(
    "[full] stepper mutation: every dropped, doubled or divided call of mixed layouts shows") {
  check(std::size_t{1} << 30);
}

}  // namespace stepper_mesh_mutation_test
