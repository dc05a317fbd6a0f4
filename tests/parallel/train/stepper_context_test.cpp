// Training with exact integers by ranks that hold parts of the same sequences: loss, gradients,
// squared norm and parameters after three steps are one rank's, bit for bit, whatever the division
// of sequences, other data ranks, ZeRO stage and microbatches.
#include <doctest/doctest.h>

#include "support/ring_run.hpp"

namespace stepper_context_test {

using parallel::index;
using parallel::context_parallel::method;
using test::layout;
using test::outcome;
using test::run;
namespace zero = parallel::zero;

TEST_CASE("divided sequences, data ranks and ZeRO stages equal one rank bit for bit") {
  layout const alone{.microbatch = 5,
                     .model = {.attention = {.heads = 12}, .blocks = 2},
                     .sizes = {.width = 12, .length = 48, .batch = 5}};
  outcome const one = run(alone);
  REQUIRE(one.complete());
  int layouts = 0;
  auto const same = [&](layout const& l) {
    CAPTURE(l.context);
    CAPTURE(static_cast<int>(l.model.attention.method));
    CAPTURE(l.ranks);
    CAPTURE(l.replicas);
    CAPTURE(static_cast<int>(l.level));
    CAPTURE(l.microbatch);
    CHECK(run(l) == one);
    ++layouts;
  };
  for (auto const how : {method::ring, method::ulysses})
    for (int const context : {2, 3, 4})
      for (index const microbatch : {1, 2, 5}) {
        layout l = alone;
        l.bucket_bytes = 1000;
        l.model.attention.method = how;
        l.context = context;
        l.microbatch = microbatch;
        same(l);
        l.replicas = 2;
        same(l);
        l.replicas = microbatch == 5 ? 2 : 1;
        for (auto const level : test::all_levels) {  // sharded along the context axis alone
          if (level == zero::level::none || (microbatch == 2) != (context == 3)) continue;
          l.level = level;
          same(l);
        }
        l.level = zero::level::none;
        l.replicas = microbatch == 2 ? 2 : 1;
        l.ranks = 2;
        for (auto const level : test::all_levels)
          if (context < 4 && level != zero::level::none) {
            l.level = level;
            same(l);
          }
      }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

}  // namespace stepper_context_test
