// Exact ring tests of all strategies at once: mixes of replicas, shards, context, tensor and
// pipeline ranks, with every ZeRO stage and schedule, equal one rank bit for bit; what cannot be
// divided is refused before anything is sent.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <parallel/comm/recorded.hpp>

#include "support/ring/ring_matrix.hpp"

namespace stepper_matrix_test {

using test::layout;

/// Runs a layout that must be refused; returns the message and the number of calls before it,
/// without those that create the mesh.
std::pair<std::string, std::ptrdiff_t> refuse(layout const& run_layout) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  try {
    static_cast<void>(test::run(run_layout, [&](parallel::threads::communicator comm) {
      return parallel::recorded(std::move(comm), recorder);
    }));
  } catch (parallel::error const& refused) {
    auto const calls = recorder->calls();
    return {refused.what(), std::ranges::count_if(calls, [](auto const& call) {
              return call.call_signature.kind != parallel::operation_kind::split &&
                     call.call_signature.kind != parallel::operation_kind::agreement;
            })};
  }
  return {};
}

struct matrix_count {
  std::size_t equal = 0;
  std::size_t refused = 0;
  std::set<std::string> distinct;
};

matrix_count check(std::vector<layout> const& layouts) {
  test::ring_references references;
  matrix_count out;
  for (auto const& run_layout : layouts) {
    auto const words = text(run_layout);
    CAPTURE(words);
    out.distinct.insert(words);
    auto const rule = refusal(run_layout);
    if (rule.empty()) {
      std::string found;
      CHECK_NOTHROW(found = difference(test::run(run_layout), references.outcome_of(run_layout)));
      CHECK(found == "");
      ++out.equal;
    } else {
      auto const [refusal_text, calls] = refuse(run_layout);
      CHECK(refusal_text.starts_with(rule));
      CHECK(calls == 0);
      ++out.refused;
    }
  }
  MESSAGE(out.equal << " layouts equal one rank bit for bit (" << references.size()
                    << " of one rank), " << out.refused << " are refused");
  return out;
}

TEST_CASE("stepper: a sample of mixed layouts equals one rank bit for bit") {
  auto const count = check(spread(test::all_layouts(16, 2), 60));
  CHECK(count.equal >= 50);
}

TEST_CASE("stepper: mixed layouts of blocks with the same parameters equal one rank bit for bit") {
  auto sample = spread(test::all_layouts(16, 2), 60);
  using enum test::block_parameters;
  for (std::size_t i = 0; i < sample.size(); ++i)
    sample[i].model.block_kind = i % 2 == 0 ? shared_layer : tied;
  CHECK(check(sample).equal >= 50);
}

TEST_CASE("stepper: in one queue a microbatch may begin before the previous one is reduced") {
  auto sample = test::all_layouts(16, 2);
  std::erase_if(sample, [](layout const& run_layout) {
    return !run_layout.one_queue || run_layout.pipeline < 3 || run_layout.context < 2 ||
           run_layout.tensor > 1;
  });
  REQUIRE(sample.size() >= 2);
  check(sample);
}

TEST_CASE("[full] stepper: mixed layouts of up to 16 ranks equal one rank bit for bit") {
  auto const count = check(test::all_layouts(16, 2));
  CHECK(count.distinct.size() == count.equal + count.refused);
  CHECK(count.equal >= 500);
  CHECK(count.refused >= 5);
}

TEST_CASE("stepper: an indivisible layout is refused with advice before anything is sent") {
  using parallel::context_parallel::method;
  test::ring_sizes const twelve{.vocabulary = 24, .length = 12, .batch = 5};
  test::ring_options const model{
      .attention = {.heads = 12, .key_heads = 4}, .blocks = 4, .head_dim = 2, .hidden = 24};
  auto exchange = model;
  exchange.attention.method = method::ulysses;
  test::ring_sizes const odd_rows{.vocabulary = 24, .length = 18, .batch = 5};
  auto few_hidden = model;
  few_hidden.hidden = 3;
  struct rule {
    layout run_layout;
    std::string message;
  };
  rule const rules[] = {
      {{.ranks = 2, .model = model, .tensor = 25, .sizes = twelve},
       "tensor parallelism: the vocabulary 24 is not enough for 25 ranks; choose a degree of "
       "tensor of at most 24"},
      {{.model = model, .tensor = 13, .sizes = twelve},
       "tensor parallelism: the number of heads 12 is not enough for 13 ranks; choose a degree of "
       "tensor of at most 12"},
      {{.model = model, .tensor = 6, .sizes = twelve},
       "tensor parallelism: 6 ranks cannot share the number of key heads 4 equally; choose a "
       "degree of tensor of at most 4, or a multiple of it"},
      {{.model = few_hidden, .tensor = 4, .sizes = twelve},
       "tensor parallelism: the number of hidden units 3 is not enough for 4 ranks; choose a "
       "degree of tensor of at most 3"},
      {{.model = exchange, .context = 2, .tensor = 3, .sizes = twelve},
       "context: 3 query heads cannot be divided among 2 ranks, as the exchange of heads needs; "
       "set the context degree to 1 or 3, or choose the ring"},
      {{.model = exchange, .context = 2, .tensor = 4, .sizes = twelve},
       "context: 3 query heads cannot be divided among 2 ranks, as the exchange of heads needs; "
       "set "
       "the context degree to 1 or 3, or choose the ring"},
      {{.model = exchange, .context = 3, .tensor = 2, .sizes = twelve},
       "context: 2 key heads cannot be divided among 3 ranks, as the exchange of heads needs; set "
       "the context degree to 2, or choose the ring"},
      {{.model = model, .context = 4, .sizes = twelve},
       "context: sequences of 12 positions do not divide into 2 x 4 chunks, as a context degree of "
       "4 needs; set their length to 8 or 16, or the degree to 3"},
      {{.model = model, .context = 3, .tensor = 4, .divide_rows = true, .sizes = odd_rows},
       "sequence parallelism: 6 rows of a microbatch cannot be shared out equally among 4 tensor "
       "ranks"},
      {{.model = model, .pipeline = 5, .sizes = twelve},
       "1f1b: 5 pipeline ranks with 1 stage each need at least 5 blocks, but the model has 4; it "
       "has enough for 4 ranks"},
      {{.model = model, .pipeline = 3, .schedule = {.schedule = "dual-pipe-v"}, .sizes = twelve},
       "dual-pipe-v: 3 pipeline ranks with 2 stages each need at least 6 blocks, but the model has "
       "4; it has enough for 2 ranks"},
      {{.model = model, .pipeline = 2, .schedule = {.blocks = {1, 2}}, .sizes = twelve},
       "1f1b: the list of blocks by stage sums to 3, but the model has 4 blocks"},
      {{.model = model, .pipeline = 2, .schedule = {.schedule = "zb-h2"}, .sizes = twelve},
       "no pipeline schedule is called 'zb-h2'; there are gpipe, 1f1b, interleaved, zb-h1, zb-v, "
       "dual-pipe-v"},
  };
  for (auto const& [run_layout, message] : rules) {
    auto const words = text(run_layout);
    CAPTURE(words);
    auto const [refusal_text, calls] = refuse(run_layout);
    CHECK(refusal_text == message);
    CHECK(calls == 0);
  }
}

}  // namespace stepper_matrix_test
