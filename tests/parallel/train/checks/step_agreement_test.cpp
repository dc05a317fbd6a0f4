// Ranks that begin different steps all get an error with the difference instead of waiting.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/train/checks/step_agreement.hpp>

#include "support/ring/ring_run.hpp"

namespace step_agreement_test {

using namespace std::chrono_literals;
using parallel::pass;
using parallel::train::step_terms;
namespace axis = parallel::axis;
namespace zero = parallel::zero;

TEST_CASE("step agreement: terms that may differ between ranks, and terms that may not") {
  auto const shape =
      parallel::training_layout{}.with_degree<axis::shard>(2).with_degree<axis::tensor>(2);
  step_terms const nine{.step = 3, .microbatches = 9, .learning_rate_factor = 0.5};
  auto eight = nine;
  eight.microbatches = 8;
  auto const difference_of = [&](std::vector<step_terms> const& terms, bool in_step) {
    return disagreement(terms, shape, in_step);
  };
  CHECK(difference_of({nine, nine, nine, nine}, true) == "");
  CHECK(difference_of({nine, nine, eight, eight}, false) ==
        "");  // data ranks, each with its own terms
  CHECK(difference_of({nine, nine, eight, eight}, true) ==
        "ranks begin different steps: ranks 0, 1 begin step 3 of 9 microbatches with learning rate "
        "factor 0.5; ranks 2, 3 begin step 3 of 8 microbatches with learning rate factor 0.5; give "
        "as many microbatches on every rank, those without sequences last");
  CHECK(difference_of({nine, eight, nine, eight}, false)
            .starts_with("ranks begin different steps: "));
  auto other = nine;
  other.mode = pass::inference;
  other.microbatches = 1;
  CHECK(
      difference_of({nine, nine, nine, other}, true) ==
      "ranks begin different steps: ranks 0, 1, 2 begin step 3 of 9 microbatches with learning "
      "rate factor 0.5; rank 3 begins an evaluation of 1 microbatch; all ranks must make the same "
      "calls of the stepper in the same order");
  for (auto const& change : std::vector<std::function<void(step_terms&)>>{
           [](auto& t) { t.step = 4; }, [](auto& t) { t.learning_rate_factor = 1; },
           [](auto& t) { t.measuring = true; }, [](auto& t) { t.limits = 7; },
           [](auto& t) { t.random_seed = 7; }, [](auto& t) { t.updates = 7; },
           [](auto& t) { t.data.hash = 7; }, [](auto& t) { t.data.rows = 7; }}) {
    other = nine;
    change(other);
    CHECK(difference_of({nine, nine, nine, other}, false) != "");
  }
  other = nine;
  other.random_seed = 1;
  other.updates = 2;
  CHECK(difference_of({nine, other, nine, other}, false) ==
        "ranks begin different steps: ranks 0, 2 begin step 3 of 9 microbatches with learning rate "
        "factor 0.5, at position.seed 0; ranks 1, 3 begin step 3 of 9 microbatches with learning "
        "rate factor 0.5, at position.seed 1 and position.updates 2; give all ranks the same seed "
        "and updates");
  auto const first = nine;  // one of two ranks with different data
  auto second = nine, by_world = nine;
  second.data = {.rows = 8, .first_sequence = 4, .hash = 1};
  by_world.data = {.rows = 8, .first_sequence = 6, .hash = 2};
  CHECK(difference_of({first, first, second, second}, true) == "");
  CHECK(difference_of({first, first, second, by_world}, true) ==
        "ranks begin different steps: rank 2 begins step 3 of 9 microbatches with learning rate "
        "factor 0.5, of 8 rows from sequence 4 on (fingerprint 1); rank 3 begins step 3 of 9 "
        "microbatches with learning rate factor 0.5, of 8 rows from sequence 6 on (fingerprint 2); "
        "these ranks, along the tensor, pipeline and context axes, share one part of the data, "
        "with the same microbatches and first_sequences; choose it by process_groups::data_rank(), "
        "not by the rank in the world");
}

TEST_CASE("step agreement: ranks with different data may not train on the same sequences") {
  auto const shape =
      parallel::training_layout{}.with_degree<axis::shard>(2).with_degree<axis::tensor>(2);
  step_terms terms{.microbatches = 1,
                   .learning_rate_factor = 1,
                   .data = {.rows = 8, .first_sequence = 4, .hash = 1}};
  auto other = terms;
  other.data = {.rows = 8, .first_sequence = 6, .hash = 2};
  CHECK(disagreement(std::vector{terms, terms, other, other}, shape, true) == "");
  CHECK(disagreement(std::vector{terms, terms, terms, terms}, shape, true)
            .starts_with(
                "ranks 0 and 2 both train on 8 rows from sequence 4 of the global batch on, but "));
  terms.learning_rate_factor = 0;  // in an evaluation, or a trial
  CHECK(disagreement(std::vector{terms, terms, terms, terms}, shape, true) == "");
}

TEST_CASE("step agreement: a step needs a rank with sequences, an evaluation does not") {
  step_terms const idle{.step = 7, .microbatches = 1, .learning_rate_factor = 1};
  auto busy = idle, evaluation = idle;
  busy.data.rows = 1;
  evaluation.learning_rate_factor = 0;
  using parallel::train::nothing_to_train;
  CHECK(nothing_to_train(std::vector{idle, idle}).starts_with("step 7 has no sequence on any "));
  CHECK(nothing_to_train(std::vector{idle, busy}) == "");
  CHECK(nothing_to_train(std::vector{evaluation, evaluation}) == "");
}

/// The message on each rank of a layout that calls act(rank, number).
template <class Act>
std::vector<std::string> messages_of(test::layout const& run_layout, Act const& act) {
  int const ranks = run_layout.shape().ranks();
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  auto const program = [&](parallel::threads::communicator& comm) {
    int const own_rank = comm.rank();
    try {
      test::ring_rank<> trainer(parallel::any_communicator(std::move(comm)), run_layout);
      act(trainer, own_rank);
    } catch (parallel::error const& thrown) {
      out[static_cast<std::size_t>(own_rank)] = thrown.what();
      throw;
    }
  };
  try {
    parallel::threads::run(ranks, program, {.deadline = 20s});
  } catch (parallel::error const&) {  // every rank has recorded its own message
  }
  return out;
}

TEST_CASE("step agreement: 17 sequences on two ranks under ZeRO-3 are refused without a wait") {
  test::layout const run_layout{
      .ranks = 2, .level = zero::level::parameters, .sizes = {.batch = 17}};
  for (auto const &message : messages_of(run_layout, [](auto&trainer, int rank) {
         auto const step_batches = trainer.data(0);
         REQUIRE(step_batches.batches().size() == 9);
         auto const count = rank == 0 ? 9U : 8U;  // as data::microbatches gives them
         parallel::arena memory(trainer.device().template allocate<std::byte>(
             trainer.stepper().plan_activations(step_batches.batches())));
         parallel::host::stream exchanges;
         (void)trainer.stepper().step(trainer.compute(), exchanges, memory,
                                      {step_batches.batches().first(count),
                                       step_batches.first_sequences().first(count),
                                       {.seed = 42, .step = 5},
                                       1.0});
       })) {
    CAPTURE(message);
    CHECK(message.find("ranks begin different steps: rank 0 begins step 5 of 9 microbatches with "
                       "learning rate factor 1; rank 1 begins step 5 of 8 microbatches with "
                       "learning rate factor 1; give as many microbatches on every rank, those "
                       "without sequences last") != std::string::npos);
  }
}

TEST_CASE("step agreement: a rank that evaluates while another trains gets an error") {
  test::layout const run_layout{.ranks = 2, .level = zero::level::parameters, .microbatch = 3};
  for (auto const &message : messages_of(run_layout, [](auto&trainer, int rank) {
         if (rank == 0) return void(trainer.step(0));
         auto const step_batches = trainer.data(0);
         parallel::arena memory(trainer.device().template allocate<std::byte>(
             trainer.stepper().plan_activations(step_batches.batches(), pass::inference)));
         parallel::train::statistics_sum<test::ring> sums;
         trainer.stepper().add_evaluation(trainer.compute(), memory, step_batches.batches(), sums);
       })) {
    CAPTURE(message);
    CHECK(message.find("rank 0 begins step 0 of 2 microbatches with learning rate factor 1; rank 1 "
                       "begins an evaluation of 2 microbatches") != std::string::npos);
  }
}

TEST_CASE("step agreement: a rank that leaves the loop early gets an error in its next call") {
  using parallel::train::joint_work;
  for (auto const level : test::all_levels)
    for (auto const& [work, name] : {std::pair{joint_work::sums, "the sum of its evaluations over"},
                                     std::pair{joint_work::save, "to save a checkpoint; all"}}) {
      test::layout const run_layout{.ranks = 2, .level = level, .microbatch = 3};
      for (auto const &message : messages_of(run_layout, [&, work = work](auto&trainer, int rank) {
             (void)trainer.step(0);
             if (rank == 0) return void(trainer.step(1));
             parallel::host::stream exchanges;
             if (work == joint_work::save)
               trainer.stepper().agree_to_save(exchanges);
             else
               (void)trainer.stepper().over_ranks(exchanges, {});
           })) {
        CAPTURE(message);
        CHECK(message.find(parallel::concat("ranks begin different steps: rank 0 begins step 1 of "
                                            "2 microbatches with learning rate factor 1; rank 1 "
                                            "begins ",
                                            name)) != std::string::npos);
      }
    }
}

/// Evaluates `count` microbatches.
template <class Rank>
void evaluate(Rank& trainer, std::size_t count) {
  auto const step_batches = trainer.data(0);
  REQUIRE(step_batches.batches().size() >= 2);
  parallel::arena memory(trainer.device().template allocate<std::byte>(
      trainer.stepper().plan_activations(step_batches.batches().first(2), pass::inference)));
  parallel::train::statistics_sum<test::ring> sums;
  trainer.stepper().add_evaluation(trainer.compute(), memory, step_batches.batches().first(count),
                                   sums);
}

/// A model with two heads and sequences that two context ranks can share.
test::layout small(int pipeline, int context, int tensor) {
  test::layout out{.microbatch = 3,
                   .pipeline = pipeline,
                   .context = context,
                   .tensor = tensor,
                   .sizes = {.length = 8}};
  out.model.attention.heads = out.model.attention.key_heads = 2;
  return out;
}

TEST_CASE(
    "step agreement: ranks of one model that evaluate different numbers of microbatches are "
    "refused") {
  for (auto const& run_layout : {small(2, 1, 1), small(1, 2, 1), small(1, 1, 2)})
    for (auto const &message : messages_of(
             run_layout, [](auto&trainer, int rank) { evaluate(trainer, rank == 0 ? 2 : 1); })) {
      CAPTURE(message);
      CHECK(message.find("rank 0 begins an evaluation of 2 microbatches; rank 1 begins an "
                         "evaluation of 1 microbatch; give as many microbatches on every rank") !=
            std::string::npos);
    }
}

TEST_CASE(
    "step agreement: a rank that evaluates nothing learns that others of its model evaluate") {
  test::layout const run_layout{.ranks = 2, .level = zero::level::parameters, .microbatch = 3};
  for (auto const &message : messages_of(run_layout, [](auto&trainer, int rank) {
         evaluate(trainer, static_cast<std::size_t>(rank));
       })) {
    CAPTURE(message);
    CHECK(message.find("rank 0 begins an evaluation of 0 microbatches; rank 1 begins an "
                       "evaluation of 1 microbatch") != std::string::npos);
  }
}

TEST_CASE("step agreement: ranks of one model begin no evaluation before they agree") {
  auto run_layout = small(1, 1, 2);
  run_layout.ranks = 2;
  for (auto const &message : messages_of(run_layout, [&](auto&trainer, int rank) {
         auto const step_batches = trainer.data(0);
         auto const batches = step_batches.batches().first(rank % 2 == 0 ? 2 : 1);
         parallel::arena memory(trainer.device().template allocate<std::byte>(
             trainer.stepper().plan_activations(step_batches.batches().first(2), pass::inference)));
         parallel::train::statistics_sum<test::ring> sums;
         try {
           trainer.stepper().add_evaluation(trainer.compute(), memory, batches, sums);
         } catch (parallel::error const&) {
           CHECK(memory.peak() == 0);
           throw;
         }
       }))
    CHECK(message != "");
}

TEST_CASE("step agreement: ranks with other data and whole values may evaluate another number") {
  using namespace parallel::axis;
  for (auto const level : {zero::level::none, zero::level::optimizer})
    for (int const context : {1, 2}) {
      auto run_layout = small(1, context, 2);
      run_layout.ranks = 2;
      run_layout.level = level;
      auto const data_rank = [&](int rank) {
        return run_layout.shape().position<replicate, shard>(rank);
      };
      for (auto const &message : messages_of(run_layout, [&](auto&trainer, int rank) {
             for (int call = 0; call <= data_rank(rank); ++call)
               evaluate(trainer, data_rank(rank) == 0 ? 2 : 1);
           }))
        CHECK(message == "");
      for (auto const &message : messages_of(run_layout, [&](auto&trainer, int rank) {
             evaluate(trainer, run_layout.shape().coordinate<tensor>(rank) == 0 ? 2 : 1);
           })) {
        CAPTURE(message);
        CHECK(message.find("begins an evaluation of 1 microbatch; give as many") !=
              std::string::npos);
      }
    }
}

TEST_CASE("step agreement: no rank waits for a rank that returned early") {
  for (auto const level : test::all_levels) {
    test::layout const run_layout{.ranks = 2, .level = level, .microbatch = 3};
    auto const messages = messages_of(run_layout, [](auto& trainer, int rank) {
      (void)trainer.step(0);
      if (rank == 0) (void)trainer.step(1);
    });
    CHECK(messages[0].starts_with("rank 1 has returned from its program, but rank 0 waits for it"));
    CHECK(messages[1] == "");
  }
}

}  // namespace step_agreement_test
