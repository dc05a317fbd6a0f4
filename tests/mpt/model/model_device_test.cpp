// A model trained in memory that the host cannot reach, as on a GPU that several ranks share, has
// the same bits as on the host for every kind of layout. No host code reads that memory, and no
// rank waits for ever.
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include "support/devices/guarded_device.hpp"
#include "support/model_comparison.hpp"
#include "support/training_run.hpp"

namespace model_device_test {

using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

void check(model_layout const& layout) {
  auto const expected = run_model(test::packed_alibi_model(), layout);
  auto const memory = std::make_shared<guarded::memory>(std::size_t{512} << 20);
  auto const got =
      run_model(test::packed_alibi_model(), layout, [&] { return guarded::device(memory); });
  test::check_same_bits(got, expected);
}

TEST_CASE("device memory: data parallel ranks in every ZeRO stage have the host's bits") {
  check({});
  check({.replicate = 2});
  check({.level = optimizer, .shard = 3, .microbatch = 1});
  check({.level = gradients, .shard = 2, .microbatch = 1});
  check({.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("device memory: optimizer states in host memory, the host's bits") {
  using enum parallel::zero::optimizer_memory;
  check({.level = gradients, .shard = 2, .microbatch = 1, .optimizer = host});
}

TEST_CASE("device memory: context and tensor parallel ranks have the host's bits") {
  check({.context = 2});
  check({.context = 2, .method = context_method::ulysses});
  check({.tensor = 2});
  check({.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("device memory: every pipeline schedule has the host's bits") {
  struct form {
    char const* schedule;
    int stages_per_rank;
  };
  for (form const f : {form{"gpipe", 1}, form{"1f1b", 1}, form{"interleaved", 2}, form{"zb-h1", 1},
                       form{"zb-v", 2}, form{"dual-pipe-v", 2}}) {
    CAPTURE(f.schedule);
    parallel::train::pipeline_options const options{.schedule = f.schedule,
                                                    .stages_per_rank = f.stages_per_rank};
    check({.pipeline = 2, .schedule = options, .microbatch = 1});
    check({.tensor = 2,
           .pipeline = 2,
           .schedule = options,
           .level = parameters,
           .shard = 2,
           .microbatch = 1});
  }
}

TEST_CASE("device memory: weight gradients on a separate stream and offloaded states, same bits") {
  auto const make = [] { return guarded::device(std::size_t{64} << 20); };
  test::check_ways_to_train<float>(make);
  test::check_ways_to_train<parallel::bf16>(make);
}

TEST_CASE_TEMPLATE(
    "device memory: a step at learning rate 0 with cleared states changes no later step", T, float,
    parallel::bf16) {
  using enum parallel::zero::optimizer_memory;
  for (auto const states : {device, host}) {
    auto const make = [&] {
      return test::training<T, guarded::device>(guarded::device(std::size_t{64} << 20),
                                                {.optimizer = states});
    };
    auto untried = make(), tried = make();
    auto const first = untried.numbers();
    tried.try_step();
    CHECK(tried.numbers() == first);
    untried.train(2);
    tried.train(2);
    CHECK(untried.numbers() != first);
    CHECK(tried.numbers() == untried.numbers());
  }
}

TEST_CASE("training step: takes the planned memory, exact to the byte") {
  test::check_memory_of_training<parallel::bf16>([] { return parallel::host::device(); });
}

}  // namespace model_device_test
