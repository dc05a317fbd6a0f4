// Mutation: the k-th collective of every rank is dropped, doubled or divided. For every k the
// outcome must differ from that of the correct run; otherwise no test would detect the mutant.
#include <doctest/doctest.h>

#include <parallel/comm/faulty.hpp>

#include "support/ring/ring_run.hpp"

namespace stepper_mutation_test {

using parallel::fault;
using parallel::fault_kind;
using test::layout;
using test::outcome;
namespace zero = parallel::zero;

/// Runs with the fault on all ranks; counts the calls of rank 0. Different values of a parameter on
/// different ranks also count as a difference.
outcome run_faulty(layout const& run_layout, fault const& injected, std::size_t& calls) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    parallel::faulty broken(std::move(comm), injected);
    test::run_rank(parallel::any_communicator(broken.split(0)), run_layout, out, lock);
    if (broken.rank() == 0) calls = static_cast<std::size_t>(broken.calls());
  });
  return out;
}

/// Breaks every call of `run_layout` in every way; returns the number of mutants.
std::size_t break_every_call(layout const& run_layout) {
  std::size_t calls = 0;
  auto const sound = run_faulty(run_layout, {}, calls);
  CHECK(sound == test::run(run_layout));
  REQUIRE(calls >= 15);
  for (std::size_t k = 0; k < calls; ++k)
    for (auto const kind : {fault_kind::drop, fault_kind::twice, fault_kind::divide}) {
      CAPTURE(k);
      CAPTURE(static_cast<int>(kind));
      std::size_t ignored = 0;
      CHECK(run_faulty(run_layout, {.call = k, .kind = kind}, ignored) != sound);
    }
  return 3 * calls;
}

TEST_CASE("stepper mutation: every dropped, doubled or divided collective changes the result") {
  test::ring_options const untied_and_gated{.tied = false, .gated = true};
  layout const layouts[] = {
      {.ranks = 3, .microbatch = 2},
      {.ranks = 3, .microbatch = 2, .measure = true},
      {.ranks = 2, .microbatch = 3, .gather_before_use = true},
      {.ranks = 3, .microbatch = 2, .frozen = {"block.1.mix"}, .second_group = {"bias"}},
      {.ranks = 3, .microbatch = 2, .frozen = {"wte", "block.0"}, .measure = true},
      {.ranks = 3, .microbatch = 2, .model = untied_and_gated},
      {.ranks = 3,
       .microbatch = 2,
       .frozen = {"gate"},
       .second_group = {"head", "up"},
       .model = untied_and_gated,
       .measure = true}};
  std::size_t mutants = 0;
  for (layout run_layout : layouts)
    for (auto const level : {zero::level::none, zero::level::optimizer})
      for (std::size_t const bucket : {std::size_t{2000}, std::size_t{1} << 30}) {
        run_layout.level = level;
        run_layout.bucket_bytes = bucket;
        CAPTURE(static_cast<int>(level));
        CAPTURE(bucket);
        CAPTURE(run_layout.measure);
        CAPTURE(run_layout.model.tied);
        mutants += break_every_call(run_layout);
      }
  MESSAGE(mutants << " mutants, all caught");
}

TEST_CASE(
    "stepper mutation: every dropped or doubled collective of ZeRO 2, ZeRO 3 and replicas shows") {
  layout const layouts[] = {
      {.ranks = 3, .microbatch = 2},
      {.ranks = 2, .microbatch = 5, .frozen = {"block.1.mix"}, .measure = true},
      // Not biases only: a backward pass reads no biases, so gathering them for it changes nothing.
      {.ranks = 2, .microbatch = 3, .second_group = {"up"}, .replicas = 2}};
  std::size_t mutants = 0;
  for (layout run_layout : layouts)
    for (auto const level : test::all_levels) {
      if (run_layout.replicas == 1 && level < zero::level::gradients) continue;  // tested above
      run_layout.level = level;
      run_layout.num_steps = 2;
      run_layout.bucket_bytes = 2000;
      CAPTURE(static_cast<int>(level));
      CAPTURE(run_layout.ranks);
      CAPTURE(run_layout.replicas);
      mutants += break_every_call(run_layout);
      if (level != zero::level::parameters) continue;
      run_layout.reshard = false;
      mutants += break_every_call(run_layout);
      run_layout.reduce_every_microbatch = false;
      mutants += break_every_call(run_layout);
      run_layout.reshard = run_layout.reduce_every_microbatch = true;
    }
  MESSAGE(mutants << " mutants, all caught");
}

}  // namespace stepper_mutation_test
