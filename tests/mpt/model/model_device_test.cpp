// A model trained where the host cannot reach the memory, as on a GPU that several ranks share: the
// same bits as on the host, on every kind of layout, and without a look into that memory or a rank
// that waits for ever.
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include "support/guarded_device.hpp"
#include "support/model_run.hpp"
#include "support/training_run.hpp"

namespace model_device_test {

using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

mpt::model_config config() {
  mpt::model_config m;
  m.d_model = 24;
  m.n_heads = 4;
  m.n_layers = 4;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 2;
  m.attn.alibi = true;
  m.attn.attn_uses_sequence_id = true;
  m.learned_pos_emb = false;
  m.resid_pdrop = 0.25;
  check_model(m, "");
  return m;
}

void check(model_layout const& how) {
  auto const expected = run_model(config(), how);
  auto const memory = std::make_shared<guarded::memory>(std::size_t{512} << 20);
  auto const got = run_model(config(), how, [&] { return guarded::device(memory); });
  CHECK(got.loss == expected.loss);
  CHECK(got.evaluated == expected.evaluated);
  CHECK(got.tokens == expected.tokens);
  CHECK(got.squared_norm == expected.squared_norm);
  CHECK(got.gradients == expected.gradients);
}

TEST_CASE("ranks with other data, in every ZeRO stage") {
  check({});
  check({.replicate = 2});
  check({.level = optimizer, .shard = 3, .microbatch = 1});
  check({.level = gradients, .shard = 2, .microbatch = 1});
  check({.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("optimizer states in the host's memory") {
  using enum parallel::zero::optimizer_memory;
  check({.level = gradients, .shard = 2, .microbatch = 1, .optimizer = host});
}

TEST_CASE("ranks that share sequences and matrices") {
  check({.context = 2});
  check({.context = 2, .method = context_method::ulysses});
  check({.tensor = 2});
  check({.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("every schedule of a pipeline") {
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

TEST_CASE("weight gradients on a stream of their own, and offloaded states: the same bits") {
  auto const make = [] { return guarded::device(std::size_t{64} << 20); };
  test::check_ways_to_train<float>(make);
  test::check_ways_to_train<parallel::bf16>(make);
}

TEST_CASE_TEMPLATE("a step at a learning rate of 0 leaves nothing behind, once states are cleared",
                   T, float, parallel::bf16) {
  using enum parallel::zero::optimizer_memory;
  for (auto const states : {device, host}) {
    auto const make = [&] {
      return test::training<T, guarded::device>(guarded::device(std::size_t{64} << 20),
                                                {.optimizer = states});
    };
    auto plain = make(), tried = make();
    auto const first = plain.numbers();
    tried.try_step();
    CHECK(tried.numbers() == first);
    plain.train(2);
    tried.train(2);
    CHECK(plain.numbers() != first);
    CHECK(tried.numbers() == plain.numbers());
  }
}

TEST_CASE("a step takes the memory that was planned, to the byte") {
  test::check_memory_of_training<parallel::bf16>([] { return parallel::host::device(); });
}

}  // namespace model_device_test
