// Training with exact integers by ranks that hold parts of the same sequences: loss, gradients,
// squared norm and parameters after three steps are one rank's, bit for bit, whatever the division
// of sequences, other data ranks, ZeRO stage and microbatches.
#include <doctest/doctest.h>

#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <parallel/context/division.hpp>
#include <parallel/train/groups.hpp>

#include "support/ring_run.hpp"

namespace stepper_context_test {

using parallel::index;
using parallel::context_parallel::method;
using test::outcome;
namespace axis = parallel::axis;
namespace zero = parallel::zero;

constexpr index whole = 48;  // divides for 2, 3 and 4 ranks
constexpr index sequences = 5;

struct layout {
  int context = 1;
  method how = method::ring;
  int shards = 1;
  int replicas = 1;
  zero::stage stage = zero::stage::none;
  index microbatch = 1;
};

outcome run(layout const& l) {
  outcome out;
  std::mutex lock;
  auto const shape = parallel::training_layout{}
                         .with<axis::context>(l.context)
                         .with<axis::shard>(l.shards)
                         .with<axis::replicate>(l.replicas);
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& own) {
    using parallel::any_communicator;
    int const rank = own.rank();
    parallel::host::device device;
    parallel::host::stream compute, traffic, to_next, from_previous;
    parallel::arena memory(device.allocate<std::byte>(std::size_t{4} << 20));
    parallel::train::training_groups<any_communicator> groups(any_communicator(std::move(own)),
                                                              shape);
    test::ring_options options{.attention = {.method = l.how, .heads = 12}};
    if (l.context > 1) options.attention.ranks = {groups.context, to_next, from_previous};
    test::ring_model model(2, 12, test::vocabulary, options);
    parallel::train::stepper stepper(model, device, groups, test::groups_of({}),
                                     {.stage = l.stage, .bucket_bytes = 1000});
    stepper.initialise(42);
    parallel::context_parallel::division const part(groups.context.rank(), l.context, whole);
    int const data_ranks = l.shards * l.replicas;
    auto const mine = parallel::data::share_of(
        sequences, shape.position<axis::replicate, axis::shard>(rank), data_ranks);
    for (int step = 0; step < test::steps; ++step) {
      std::vector<std::vector<std::int32_t>> ids, labels;
      std::vector<test::ring_microbatch> batches;
      std::vector<index> first;
      for (auto const& some : parallel::data::microbatches(mine, l.microbatch)) {
        std::vector<std::int32_t> x, y;
        for (index sequence = some.begin; sequence < some.end; ++sequence)
          for (index at = 0; at < whole; ++at) {
            x.push_back(test::token(step, sequence, at));
            y.push_back(at + 7 * sequence < whole ? test::token(step, sequence, at + 1) : -100);
          }
        ids.push_back(part.pick(std::span<std::int32_t const>(x)));
        labels.push_back(part.pick(std::span<std::int32_t const>(y)));
        index const rows = some.size() * part.length();
        batches.push_back({{ids.back().data(), {rows}},
                           {labels.back().data(), {rows}},
                           some.size(),
                           part.length()});
        first.push_back(some.begin);
      }
      auto const most = static_cast<std::size_t>(
          parallel::data::most_microbatches(sequences, data_ranks, l.microbatch));
      batches.resize(most);
      first.resize(most);
      test::spoil_gradients(stepper, rank);
      auto const result = stepper.step(compute, traffic, memory, std::span(std::as_const(batches)),
                                       std::span(std::as_const(first)),
                                       {.seed = 42, .step = static_cast<std::uint32_t>(step)}, 1.0);
      std::scoped_lock const guard(lock);
      if (rank == 0) {
        out.losses.push_back(result.sums.loss);
        out.squared_norms.push_back(result.squared_norm);
        out.tokens.push_back(result.sums.tokens);
      }
    }
    std::scoped_lock const guard(lock);
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        auto const& segment = unit.memory.layout().segments()[s];
        test::add_elements(out.gradients, segment, m.owned, unit.memory.owned_gradients(s), out);
        test::add_elements(out.parameters, segment,
                           unit.memory.values_divided() ? m.owned : zero::range{0, segment.size},
                           m.values.span(), out);
      }
  });
  return out;
}

TEST_CASE("divided sequences, data ranks and ZeRO stages equal one rank bit for bit") {
  outcome const one = run({});
  REQUIRE(one.complete());
  int layouts = 0;
  auto const same = [&](layout const& l) {
    CAPTURE(l.context);
    CAPTURE(static_cast<int>(l.how));
    CAPTURE(l.shards);
    CAPTURE(l.replicas);
    CAPTURE(static_cast<int>(l.stage));
    CAPTURE(l.microbatch);
    CHECK(run(l) == one);
    ++layouts;
  };
  for (auto const how : {method::ring, method::ulysses})
    for (int const context : {2, 3, 4})
      for (index const microbatch : {1, 2, 5}) {
        same({.context = context, .how = how, .microbatch = microbatch});
        same({.context = context, .how = how, .replicas = 2, .microbatch = microbatch});
        for (auto const stage : test::all_stages)
          if (context < 4 && stage != zero::stage::none)
            same({.context = context,
                  .how = how,
                  .shards = 2,
                  .replicas = microbatch == 2 ? 2 : 1,
                  .stage = stage,
                  .microbatch = microbatch});
      }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

}  // namespace stepper_context_test
