// A session and run_training give the same results as explicit calls of a stepper.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/training_run.hpp>

#include "parallel/support/files.hpp"
#include "support/given_gradients.hpp"
#include "support/ring/ring_session.hpp"

namespace training_run_test {
namespace {

namespace train = parallel::train;
using parallel::index;
using test::layout;
using test::ring_session;

/// The results of run_training on all ranks.
test::outcome trained(layout const& config) {
  test::outcome out;
  std::mutex lock;
  test::on_session_ranks(config, [&](ring_session& session, auto& groups) {
    test::ring_batches batches(config, groups);
    auto const finished = train::run_training(
        session, {.batches = config.num_steps,
                  .seed = 42,
                  .data = [&](index number) { return batches.batch(number); },
                  .on_update =
                      [&](index finished_batches, auto const& result) {
                        std::scoped_lock const guard(lock);
                        out.add(static_cast<std::size_t>(finished_batches - 1), result);
                      }});
    CHECK(finished == config.num_steps);
    session.gather_values();
    std::scoped_lock const guard(lock);
    test::collect(session.stepper(), out);
  });
  return out;
}

TEST_CASE(
    "run_training: losses, gradients and parameters equal those of a stepper, in each layout") {
  for (auto const& config : {
           layout{},
           layout{.ranks = 3, .microbatch = 2},
           layout{.ranks = 4, .level = test::zero::level::gradients, .microbatch = 3},
           layout{.ranks = 2, .level = test::zero::level::parameters, .replicas = 2},
           layout{.ranks = 2,
           .level = test::zero::level::parameters,
           .microbatch = 2,
           .pipeline = 2,
           .schedule = {.schedule = "1f1b"}},
       }) {
    CAPTURE(config.shape().text());
    CHECK(trained(config) == test::run(config));
  }
}

/// The error of a run on two data-parallel ranks in which change(batch, rank, number) changes
/// batches.
template <class Change>
std::string refusal_of_batches(Change const& change, bool compares_samples = false) {
  layout const config{.ranks = 2};
  return test::message_of([&] {
    test::on_session_ranks(config, [&](ring_session& session, auto& groups) {
      test::ring_batches batches(config, groups);
      train::run_training(session, {.batches = 3,
                                    .data =
                                        [&](index number) {
                                          auto batch = batches.batch(number);
                                          change(batch, groups.data_rank(), number);
                                          return batch;
                                        },
                                    .compares_samples = compares_samples});
    });
  });
}

TEST_CASE("run_training: data that has ended or has no place in the global batch is refused") {
  using batch_type = train::rank_batch<ring_session::microbatch>;
  CHECK(refusal_of_batches([](batch_type&, int, index) {}).empty());
  CHECK(test::contains(refusal_of_batches([](batch_type& batch, int, index number) {
                         if (number == 2) batch = {};
                       }),
                       "run_options::data returns no microbatches for batch 2 of 3; where the data "
                       "has ended, begin it again, or train fewer batches"));
  CHECK(test::contains(refusal_of_batches([](batch_type& batch, int, index number) {
                         if (number == 1) batch = {.max_microbatches = 2};
                       }),
                       "step 1 has no sequence on any rank; where the data has ended"));
  CHECK(test::contains(refusal_of_batches([](batch_type& batch, int, index) {
                         batch.first_sequences = batch.first_sequences.first(0);
                       }),
                       "microbatches is given 0 first_sequences; give the number"));
  std::vector<index> const zeros(64, 0);
  CHECK(test::contains(refusal_of_batches([&](batch_type& batch, int, index) {
                         batch.microbatches = batch.microbatches.first(1);
                         batch.first_sequences = std::span(zeros).first(1);
                       }),
                       "ranks 0 and 1 both train on "));
}

/// The error of a run on two data-parallel ranks that draw sample(rank, batch).
template <class Sample>
std::string refusal_of_samples(Sample const& sample) {
  std::array<index, 2> samples{};  // by rank
  return refusal_of_batches(
      [&](auto& batch, int rank, index number) {
        auto& own_sample = samples[static_cast<std::size_t>(rank)];
        own_sample = sample(rank, number);
        batch.samples = std::span(&own_sample, 1);
      },
      true);
}

TEST_CASE(
    "run_training: the error for a sample that is drawn twice, by one rank or by two, names the "
    "sample") {
  CHECK(refusal_of_samples([](int rank, index batch) { return 2 * batch + rank; }).empty());
  CHECK(test::contains(
      refusal_of_samples([](int rank, index batch) { return rank == 0 ? batch : 5 - 2 * batch; }),
      "sample 1 is drawn by data-parallel rank 0 for batch 1 and by rank 1 for batch 2; ranks take "
      "parts of one order of samples (data::share_of), so shuffle by the same seed on every rank"));
  CHECK(test::contains(refusal_of_samples([](int rank, index) { return rank; }),
                       "sample 0 is drawn by data-parallel rank 0 for batch 0 and by rank 0 for "
                       "batch 1"));
}

struct counted_saves : train::no_saves {
  int count = 0;
  void save(auto&, index) { ++count; }
};

TEST_CASE("run_training: a run whose loss is no number stops at that batch, and saves nothing") {
  counted_saves saves;
  index updated = 0;
  auto const message = test::message_of([&] {
    parallel::single comm;
    parallel::host::device device;
    test::given_gradients<float> model({{"weights", {2}, {1.0F, 2.0F}, {0.5F, 0.5F}}});
    train::session session(model, device, comm, parallel::decoupled_adamw{}, {});
    test::given_microbatch<float> microbatch;
    index const first = 0;
    train::run_options<decltype(session)> options{
        .batches = 5,
        .data =
            [&](index batch) {
              microbatch.factor = batch == 2 ? std::nanf("") : 1.0F;
              return train::rank_batch<test::given_microbatch<float>>{
                  .microbatches = {&microbatch, 1}, .first_sequences = {&first, 1}};
            },
        .save_interval = 1,
        .on_update = [&](index finished, auto const&) { updated = finished; }};
    train::run_training(session, std::move(options), saves);
  });
  CHECK(test::contains(message, "batch 2: its loss is nan"));
  CHECK(updated == 2);
  CHECK(saves.count == 2);
}

TEST_CASE("run_training: evaluations and saves run at their intervals and after the last batch") {
  struct recorded_saves : train::no_saves {
    std::vector<index> batches;
    void save(ring_session&, index finished) { batches.push_back(finished); }
  } saves;
  std::vector<index> evaluated;
  layout const config;
  test::on_session_ranks(config, [&](ring_session& session, auto& groups) {
    test::ring_batches batches(config, groups);
    auto const batch = [&](index number) { return batches.batch(number); };
    train::run_training(session,
                        {.batches = 5,
                         .data = batch,
                         .evaluation_data = [&] { return batch(0); },
                         .evaluation_interval = 2,
                         .save_interval = 3,
                         .on_evaluation =
                             [&](index finished, auto const& sums) {
                               CHECK(sums.tokens > 0);
                               evaluated.push_back(finished);
                             }},
                        saves);
  });
  CHECK(evaluated == std::vector<index>{2, 4, 5});
  CHECK(saves.batches == std::vector<index>{3, 5});
}

}  // namespace
}  // namespace training_run_test
