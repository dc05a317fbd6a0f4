// Training with exact integers by ranks that hold parts of the same sequences: for every division
// of sequences, number of data ranks, ZeRO stage and microbatch size, the loss, gradients, squared
// norm and parameters after three steps equal those of one rank bit for bit.
#include <doctest/doctest.h>

#include "support/ring/ring_run.hpp"

namespace stepper_context_test {

using parallel::index;
using parallel::context_parallel::method;
using test::layout;
using test::outcome;
using test::run;
namespace zero = parallel::zero;

TEST_CASE("stepper: context ranks with data ranks and ZeRO stages equal one rank bit for bit") {
  layout const single_rank{.microbatch = 5,
                           .model = {.attention = {.heads = 12}, .blocks = 2},
                           .sizes = {.width = 12, .length = 48, .batch = 5}};
  outcome const expected = run(single_rank);
  REQUIRE(expected.complete());
  int layouts = 0;
  auto const check_layout = [&](layout const& l) {
    CAPTURE(l.context);
    CAPTURE(static_cast<int>(l.model.attention.method));
    CAPTURE(l.ranks);
    CAPTURE(l.replicas);
    CAPTURE(static_cast<int>(l.level));
    CAPTURE(l.microbatch);
    CHECK(run(l) == expected);
    ++layouts;
  };
  for (auto const attention_method : {method::ring, method::ulysses})
    for (int const context : {2, 3, 4})
      for (index const microbatch : {1, 2, 5}) {
        layout l = single_rank;
        l.bucket_bytes = 1000;
        l.model.attention.method = attention_method;
        l.context = context;
        l.microbatch = microbatch;
        check_layout(l);
        l.replicas = 2;
        check_layout(l);
        l.replicas = microbatch == 5 ? 2 : 1;
        for (auto const level : test::all_levels) {  // sharded along the context axis only
          if (level == zero::level::none || (microbatch == 2) != (context == 3)) continue;
          l.level = level;
          check_layout(l);
        }
        l.level = zero::level::none;
        l.replicas = microbatch == 2 ? 2 : 1;
        l.ranks = 2;
        for (auto const level : test::all_levels)
          if (context < 4 && level != zero::level::none) {
            l.level = level;
            check_layout(l);
          }
      }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

}  // namespace stepper_context_test
