// MPT trained on a device with its own streams and a communicator that enqueues on them has the
// host's bits for every kind of layout, and host threads wait for nothing while they enqueue a
// step.
#include <doctest/doctest.h>

#include <barrier>

#include "support/devices/queued_communicator.hpp"
#include "support/devices/queued_device.hpp"
#include "support/model_comparison.hpp"

namespace model_queued_test {

using test::context_method;
using test::model_layout;
using enum parallel::zero::level;

/// Compares two steps on the host with two on a queued device, which is stalled while every rank
/// enqueues a step.
void check(model_layout layout) {
  layout.steps = 2;
  layout.clip = {parallel::train::clipping_kind::norm, 0.5};
  auto const expected = run_model(test::packed_alibi_model(), layout);
  CHECK(expected.gradient_norm > 0.5);  // so gradients are clipped
  queued::device const device(2, 7);
  std::barrier rendezvous(layout.context * layout.tensor * layout.replicate * layout.pipeline *
                          layout.shard);
  layout.before_step = [&] {
    rendezvous.arrive_and_wait();  // no rank waits for the device
    device.engine().pause();
    rendezvous.arrive_and_wait();
  };
  layout.after_begin = [&] {
    rendezvous.arrive_and_wait();
    device.engine().resume();
    rendezvous.arrive_and_wait();
  };
  auto const got = run_model(
      test::packed_alibi_model(), layout, [&] { return device; },
      [](int ranks, auto const& program) { queued::run(ranks, program); });
  test::check_same_bits(got, expected);
  CHECK(got.gradient_norm == expected.gradient_norm);
  CHECK(got.parameters == expected.parameters);
  CHECK(device.engine().host()->blocked_host_waits == 0);
}

TEST_CASE("queued device: data parallel ranks in every ZeRO stage have the host's bits") {
  check({});
  check({.replicate = 2});
  check({.level = optimizer, .shard = 3, .microbatch = 1});
  check({.level = gradients, .shard = 2, .microbatch = 1});
  check({.replicate = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("queued device: context and tensor parallel ranks have the host's bits") {
  check({.context = 2});
  check({.context = 2, .method = context_method::ulysses});
  check({.tensor = 2});
  check({.tensor = 2, .sequence_parallel = false});
  check({.context = 2, .tensor = 2, .level = parameters, .shard = 2, .microbatch = 1});
}

TEST_CASE("queued device: ZeRO, tensor, context and pipeline ranks together have the host's bits") {
  for (auto const level : {optimizer, gradients, parameters})
    check({.context = 2, .tensor = 2, .pipeline = 2, .level = level, .shard = 2, .microbatch = 1});
  check({.context = 2, .tensor = 2, .replicate = 2, .pipeline = 2, .microbatch = 1});
}

TEST_CASE("queued device: every pipeline schedule has the host's bits") {
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
