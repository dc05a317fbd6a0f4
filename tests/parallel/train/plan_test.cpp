// Plans compared with real steps: the memory that the meta device predicts for the ring model
// equals the memory that the host device counts, to the byte.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring/ring_model.hpp"

namespace plan_test {
namespace {

using parallel::index;
using test::ring_model;
namespace train = parallel::train;
namespace zero = parallel::zero;

train::optimizer_groups<test::ring_momentum> const optimizer(test::ring_momentum{});
constexpr index length = 5;
constexpr index vocabulary = 13;

/// `count` sequences of zeros.
struct zeros {
  explicit zeros(index count) : ids(static_cast<std::size_t>(count * length)), sequences(count) {}
  [[nodiscard]] test::ring_microbatch view() const {
    index const rows = sequences * length;
    return {{ids.data(), {rows}}, {ids.data(), {rows}}, sequences, length, rows};
  }
  std::vector<std::int32_t> ids;
  index sequences;
};

constexpr zero::level all_levels[] = {zero::level::none, zero::level::optimizer,
                                      zero::level::gradients, zero::level::parameters};

/// Plans the memory of each rank, then runs a step of two microbatches and compares the memory that
/// it takes with the plan. `saves_memory`: gathered parameters are released after the forward pass,
/// and gradients are reduced in every microbatch.
void check_plan(parallel::training_layout shape, zero::level level, index microbatch,
                train::optimizer_groups<test::ring_momentum> const& groups,
                bool saves_memory = true) {
  train::stepper_options const step_options{.level = level,
                                            .bucket_bytes = 1,
                                            .reshard_after_forward = saves_memory,
                                            .reduce_every_microbatch = saves_memory};
  ring_model planned(4, 4, vocabulary);
  zeros const data(microbatch);
  auto plan = train::plan_units(planned, groups, train::place_in(shape, level), step_options);
  plan.activations = train::plan_microbatch(planned, data.view()).activations;
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    ring_model model(4, 4, vocabulary);
    train::process_groups ranks(comm.split(0), shape, level);
    train::stepper step(model, device, ranks, groups, step_options);
    step.initialise(1);
    CHECK(device.bytes() ==
          plan.values + plan.gradients + plan.master + plan.optimizer + plan.buffers);
    // A larger arena would not hide an overrun, since its peak is compared.
    parallel::arena memory(device.allocate<std::byte>(plan.activations + 4096));
    parallel::host::stream compute;
    parallel::host::stream exchanges;
    std::vector const batches(2, data.view());
    index const begin = 200 * ranks.data_rank();
    std::vector<index> const first_sequences{begin, begin + 100};
    (void)step.step(compute, exchanges, memory, {batches, first_sequences, {}, 1.0});
    CHECK(memory.peak() == plan.activations);
    CHECK(device.peak_bytes() == plan.total() + 4096);  // a step allocates nothing more
  });
}

TEST_CASE("plan: the arena and units of a real step equal the plan to the byte") {
  using parallel::training_layout;
  train::optimizer_groups<test::ring_momentum> const partly_frozen(
      {{}, {.rate = 3}}, [](std::string const& name) {
        return parallel::segment_key{.trainable = name.find("mix") == std::string::npos,
                                     .group = name.ends_with("bias") ? 1 : 0};
      });
  for (auto const level : all_levels)
    for (index const microbatch : {1, 3}) {
      CAPTURE(static_cast<int>(level));
      CAPTURE(microbatch);
      for (int const ranks : {1, 2, 3})
        check_plan(
            train::process_groups<parallel::threads::communicator>::data_layout(level, ranks),
            level, microbatch, optimizer);
      auto const two_replicas = training_layout{}.with_degree<parallel::axis::replicate>(2);
      check_plan(level == zero::level::none ? two_replicas
                                            : two_replicas.with_degree<parallel::axis::shard>(2),
                 level, microbatch, partly_frozen);
      if (level >= zero::level::gradients)
        check_plan(two_replicas.with_degree<parallel::axis::shard>(2), level, microbatch,
                   partly_frozen, false);
    }
}

TEST_CASE("plan: every pipeline rank has its own plan, exact to the byte") {
  constexpr std::size_t microbatches = 5;
  for (std::string const schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"})
    for (auto const level : {zero::level::none, zero::level::parameters}) {
      CAPTURE(schedule);
      CAPTURE(static_cast<int>(level));
      bool const has_two_stages = schedule == "interleaved" || schedule == "zb-v";
      train::pipeline_options const options{.schedule = schedule,
                                            .stages_per_rank = has_two_stages ? 2 : 1};
      auto const shape =
          train::process_groups<parallel::threads::communicator>::data_layout(level, 2)
              .with_degree<parallel::axis::pipeline>(2);
      parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& comm) {
        int const rank = shape.coordinate<parallel::axis::pipeline>(comm.rank());
        zeros const full(3), rest(1);
        ring_model planned(5, 4, vocabulary);
        train::stages_of_rank stages(options, rank, 2, planned.num_blocks());
        auto const count = static_cast<std::size_t>(stages.least_microbatches(microbatches));
        train::stepper_options const step_options{
            .level = level, .bucket_bytes = 1, .pipeline = options};
        auto plan = train::plan_units(planned, optimizer, stages,
                                      {.shards = shape.degree<parallel::axis::shard>(),
                                       .replicas = shape.degree<parallel::axis::replicate>()},
                                      step_options);
        std::vector const sizes{full.view(), rest.view()};
        plan.activations = train::plan_activations(planned, stages, count, std::span(sizes),
                                                   parallel::pass::training);
        parallel::host::device device;
        ring_model model(5, 4, vocabulary);
        train::process_groups ranks(comm.split(0), shape, level);
        train::stepper step(model, device, ranks, optimizer, step_options);
        step.initialise(1);
        CHECK(step.least_microbatches(microbatches) == count);
        CHECK(device.bytes() == plan.total() - plan.activations);
        parallel::arena memory(device.allocate<std::byte>(plan.activations + 4096));
        parallel::host::stream compute, exchanges;
        std::vector<test::ring_microbatch> batches(count);
        for (std::size_t m = 0; m + 1 < microbatches; ++m) batches[m] = full.view();
        batches[microbatches - 1] = rest.view();
        std::vector<index> first_sequences;
        for (std::size_t m = 0; m < count; ++m)
          first_sequences.push_back(
              100 * (static_cast<index>(count) * ranks.data_rank() + static_cast<index>(m)));
        (void)step.step(compute, exchanges, memory, {batches, first_sequences, {}, 1.0});
        CHECK(memory.peak() == plan.activations);
        parallel::arena evaluation_memory(device.allocate<std::byte>(train::plan_activations(
            planned, stages, count, std::span(sizes), parallel::pass::inference)));
        train::statistics_sum<test::ring> sums;
        step.add_evaluation(compute, evaluation_memory, std::span(std::as_const(batches)), sums);
        CHECK(evaluation_memory.peak() <= memory.peak());
      });
    }
}

TEST_CASE("plan: ZeRO-1 divides only the optimizer's memory by the ranks") {
  ring_model model(2, 4, vocabulary);
  auto const planned_at = [&](zero::level level) {
    return train::plan_units(model, optimizer, zero::data_position(level, 0, 4), {.level = level});
  };
  auto const replicated = planned_at(zero::level::none);
  auto const sharded = planned_at(zero::level::optimizer);
  CHECK(sharded.optimizer * 4 == replicated.optimizer);
  CHECK(sharded.values == replicated.values);
  CHECK(sharded.gradients == replicated.gradients);
  CHECK(replicated.master == 0);  // the element type accumulates in itself
}

TEST_CASE(
    "plan: ZeRO-2 divides gradients by the ranks, ZeRO-3 also values; both add buffers for whole "
    "units") {
  ring_model model(4, 4, vocabulary);
  auto const planned_at = [&](zero::level level) {
    return train::plan_units(model, optimizer, zero::data_position(level, 0, 4), {.level = level});
  };
  auto const one = planned_at(zero::level::optimizer);
  auto const two = planned_at(zero::level::gradients);
  auto const three = planned_at(zero::level::parameters);
  CHECK(two.optimizer == one.optimizer);
  CHECK(three.optimizer == one.optimizer);
  CHECK(two.values == one.values);
  CHECK(three.gradients == two.gradients);
  // The units are the tied token embedding (13 x 4 elements), the last norm (4), and four blocks
  // with 4 + 16 + 4 + 4 + 16 + 4 elements in the mixer branch and 4 + 48 + 12 + 48 + 4 in the MLP
  // branch. Each tensor is padded to a multiple of 32 elements, each unit to one of 4 ranks * 32.
  std::size_t const tokens = 128 * sizeof(test::ring);
  std::size_t const norm = 128 * sizeof(test::ring);
  std::size_t const block = 512 * sizeof(test::ring);
  // The entry uses the embedding, the exit uses the embedding and the norm: both have buffers of
  // their own. The blocks share two buffers.
  std::size_t const buffers = tokens + (tokens + norm) + 2 * block;
  CHECK(one.values == tokens + norm + 4 * block);
  CHECK(one.buffers == 0);
  CHECK(two.buffers == buffers);
  CHECK(three.values == one.values / 4);
  CHECK(three.buffers == 2 * buffers);
  auto const resident =
      train::plan_units(model, optimizer, zero::data_position(zero::level::parameters, 0, 4),
                        {.level = zero::level::parameters, .reshard_after_forward = false});
  CHECK(resident.values == three.values);
  CHECK(resident.buffers == one.values + two.buffers);
  CHECK(resident.gradients == three.gradients);
  CHECK(one.gradients == tokens + norm + 4 * block);  // both uses add to the gradient of the tokens
  CHECK(two.gradients == one.gradients / 4);
  for (auto const level : {zero::level::gradients, zero::level::parameters}) {
    auto const reduced_once = train::plan_units(model, optimizer, zero::data_position(level, 0, 4),
                                                {.level = level, .reduce_every_microbatch = false});
    CHECK(reduced_once.gradients == one.gradients);
    CHECK(reduced_once.buffers == (level == zero::level::gradients ? 0 : buffers));
  }
}

TEST_CASE(
    "plan: an evaluation takes exactly its planned memory, which is less than that of training") {
  ring_model model(3, 4, vocabulary);
  zeros const data(2);
  auto const planned = train::plan_evaluation(model, data.view());
  CHECK(planned < train::plan_microbatch(model, data.view()).activations);
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    train::stepper step(model, device, comm, optimizer, {});
    step.initialise(1);
    parallel::arena memory(device.allocate<std::byte>(planned));
    parallel::host::stream compute;
    auto const batch = data.view();
    train::statistics_sum<test::ring> sums;
    step.add_evaluation(compute, memory, std::span(&batch, 1), sums);
    CHECK(memory.peak() == planned);
    CHECK(sums.local().tokens == 2 * length);
  });
}

TEST_CASE("plan: the number of operations is proportional to the microbatch's sequences") {
  ring_model model(2, 4, vocabulary);
  zeros const one(1);
  zeros const four(4);
  auto const small = train::plan_microbatch(model, one.view()).operations;
  CHECK(small > 0);
  CHECK(train::plan_microbatch(model, four.view()).operations == 4 * small);
}

}  // namespace
}  // namespace plan_test
