// MPT trained on a device whose streams are its own, with a communicator that enqueues on them, on
// every kind of layout: the bits of the host, whose threads wait for nothing while they enqueue a
// step.
#include <doctest/doctest.h>

#include <barrier>

#include "support/model_run.hpp"
#include "support/queued_communicator.hpp"
#include "support/queued_device.hpp"

namespace model_queued_test {

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

/// Two steps on the host, and then where every rank enqueues a step while the device stands still.
void check(model_layout how) {
  how.steps = 2;
  how.clip = {parallel::train::clipping_kind::norm, 0.5};
  auto const expected = run_model(config(), how);
  CHECK(expected.gradient_norm > 0.5);  // clipping clips
  queued::device const device(2, 7);
  std::barrier rendezvous(how.context * how.tensor * how.replicate * how.pipeline * how.shard);
  how.before_step = [&] {
    rendezvous.arrive_and_wait();  // nobody waits for the device any more
    device.engine().pause();
    rendezvous.arrive_and_wait();
  };
  how.after_begin = [&] {
    rendezvous.arrive_and_wait();
    device.engine().resume();
    rendezvous.arrive_and_wait();
  };
  auto const got = run_model(
      config(), how, [&] { return device; },
      [](int ranks, auto const& program) { queued::run(ranks, program); });
  CHECK(got.loss == expected.loss);
  CHECK(got.evaluated == expected.evaluated);
  CHECK(got.tokens == expected.tokens);
  CHECK(got.squared_norm == expected.squared_norm);
  CHECK(got.gradient_norm == expected.gradient_norm);
  CHECK(got.gradients == expected.gradients);
  CHECK(got.parameters == expected.parameters);
  CHECK(device.engine().host()->blocked_host_waits == 0);
}

TEST_CASE("ranks with other data, in every ZeRO stage") {
  check({});
  check({.replicate = 2});
  check({.level = optimizer, .shard = 3, .microbatch = 1});
  check({.level = gradients, .shard = 2, .microbatch = 1});
  check({.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("ranks that share sequences and matrices") {
  check({.context = 2});
  check({.context = 2, .method = context_method::ulysses});
  check({.tensor = 2});
  check({.tensor = 2, .sequence_parallel = false});
  check({.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("ZeRO, tensor, context and pipeline ranks together") {
  for (auto const level : {optimizer, gradients, parameters})
    check({.context = 2, .tensor = 2, .pipeline = 2, .level = level, .shard = 2, .microbatch = 1});
  check({.context = 2, .tensor = 2, .replicate = 2, .pipeline = 2, .microbatch = 1});
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

}  // namespace model_queued_test
