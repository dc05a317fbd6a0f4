// Mutation: the k-th collective of every rank is dropped, doubled or divided. For every k the run
// must come out different from the sound one; a mutant that does not is one no test would notice.
#include <doctest/doctest.h>

#include <parallel/comm/faulty.hpp>

#include "support/ring_run.hpp"

namespace stepper_mutation_test {

using parallel::fault;
using parallel::fault_kind;
using test::layout;
using test::outcome;
namespace zero = parallel::zero;

/// Runs with `what` on all ranks; counts the calls of rank 0. Differing values of one parameter on
/// different ranks are a difference too.
outcome run_faulty(layout const& how, fault const& what, std::size_t& calls) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(how.shape().ranks(), [&](parallel::threads::communicator& comm) {
    parallel::faulty broken(std::move(comm), what);
    test::run_rank(parallel::any_communicator(broken.split(0)), how, out, lock);
    if (broken.rank() == 0) calls = static_cast<std::size_t>(broken.calls());
  });
  return out;
}

/// Breaks every call of `how` in every way; returns the number of mutants.
std::size_t break_every_call(layout const& how) {
  std::size_t calls = 0;
  auto const sound = run_faulty(how, {}, calls);
  CHECK(sound == test::run(how));
  REQUIRE(calls >= 15);
  for (std::size_t k = 0; k < calls; ++k)
    for (auto const kind : {fault_kind::drop, fault_kind::twice, fault_kind::divide}) {
      CAPTURE(k);
      CAPTURE(static_cast<int>(kind));
      std::size_t ignored = 0;
      CHECK(run_faulty(how, {.at = k, .kind = kind}, ignored) != sound);
    }
  return 3 * calls;
}

TEST_CASE("every dropped, doubled or divided collective changes the result") {
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
  for (layout how : layouts)
    for (auto const level : {zero::level::none, zero::level::optimizer})
      for (std::size_t const bucket : {std::size_t{2000}, std::size_t{1} << 30}) {
        how.level = level;
        how.bucket_bytes = bucket;
        CAPTURE(static_cast<int>(level));
        CAPTURE(bucket);
        CAPTURE(how.measure);
        CAPTURE(how.model.tied);
        mutants += break_every_call(how);
      }
  MESSAGE(mutants << " mutants, all caught");
}

TEST_CASE("so it does in stages 2 and 3, which exchange in every microbatch, and over replicas") {
  layout const layouts[] = {
      {.ranks = 3, .microbatch = 2},
      {.ranks = 2, .microbatch = 5, .frozen = {"block.1.mix"}, .measure = true},
      // not biases alone: a backward pass reads none, so gathering them for it is no difference
      {.ranks = 2, .microbatch = 3, .second_group = {"up"}, .replicas = 2}};
  std::size_t mutants = 0;
  for (layout how : layouts)
    for (auto const level : test::all_levels) {
      if (how.replicas == 1 && level < zero::level::gradients) continue;  // above
      how.level = level;
      how.num_steps = 2;
      how.bucket_bytes = 2000;
      CAPTURE(static_cast<int>(level));
      CAPTURE(how.ranks);
      CAPTURE(how.replicas);
      mutants += break_every_call(how);
      if (level != zero::level::parameters) continue;
      how.reshard = false;
      mutants += break_every_call(how);
      how.reduce_every_microbatch = false;
      mutants += break_every_call(how);
      how.reshard = how.reduce_every_microbatch = true;
    }
  MESSAGE(mutants << " mutants, all caught");
}

}  // namespace stepper_mutation_test
