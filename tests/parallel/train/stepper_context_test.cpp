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
    CAPTURE(static_cast<int>(l.stage));
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
        l.replicas = microbatch == 2 ? 2 : 1;
        l.ranks = 2;
        for (auto const stage : test::all_stages)
          if (context < 4 && stage != zero::stage::none) {
            l.stage = stage;
            same(l);
          }
      }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

}  // namespace stepper_context_test
