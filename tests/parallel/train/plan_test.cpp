// The plan against the real thing: what the meta device predicts of the ring model is what the host
// device counts, byte for byte.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring_model.hpp"

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
    return {{ids.data(), {rows}}, {ids.data(), {rows}}, sequences, length};
  }
  std::vector<std::int32_t> ids;
  index sequences;
};

TEST_CASE("the arena and the units of a real step are those of the plan, to the byte") {
  for (int const ranks : {1, 2, 3})
    for (auto const stage : {zero::stage::none, zero::stage::optimizer})
      for (index const microbatch : {1, 3}) {
        CAPTURE(ranks);
        CAPTURE(microbatch);
        ring_model planned(2, 4, vocabulary);
        zeros const data(microbatch);
        auto plan = train::plan_units(planned, optimizer, stage, zero::data_place(stage, 0, ranks));
        plan.activations = train::plan_microbatch(planned, data.view()).activations;
        parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
          parallel::host::device device;
          ring_model model(2, 4, vocabulary);
          train::stepper step(model, device, comm, optimizer, {.stage = stage, .bucket_bytes = 1});
          CHECK(device.bytes() == plan.values + plan.gradients + plan.master + plan.optimizer);
          // a roomier arena would not hide an overrun: its high-water mark is compared
          parallel::arena memory(device.allocate<std::byte>(plan.activations + 4096));
          parallel::host::stream compute;
          parallel::host::stream traffic;
          std::vector const batches(2, data.view());
          std::vector<index> const first(2, 0);
          (void)step.step(compute, traffic, memory, std::span(batches), std::span(first), {}, 1.0);
          CHECK(memory.peak() == plan.activations);
          CHECK(device.peak_bytes() == plan.total() + 4096);  // a step asks for nothing more
        });
      }
}

TEST_CASE("ZeRO-1 divides the optimizer's memory by the ranks and nothing else") {
  ring_model model(2, 4, vocabulary);
  auto const whole = train::plan_units(model, optimizer, zero::stage::none,
                                       zero::data_place(zero::stage::none, 0, 4));
  auto const shared = train::plan_units(model, optimizer, zero::stage::optimizer,
                                        zero::data_place(zero::stage::optimizer, 0, 4));
  CHECK(shared.optimizer * 4 == whole.optimizer);
  CHECK(shared.values == whole.values);
  CHECK(shared.gradients == whole.gradients);
  CHECK(whole.master == 0);  // the element accumulates in itself
}

TEST_CASE("evaluation is planned exactly too, and needs less than training") {
  ring_model model(3, 4, vocabulary);
  zeros const data(2);
  auto const planned = train::plan_evaluation(model, data.view());
  CHECK(planned < train::plan_microbatch(model, data.view()).activations);
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    train::stepper step(model, device, comm, optimizer, {});
    parallel::arena memory(device.allocate<std::byte>(planned));
    parallel::host::stream compute;
    auto const batch = data.view();
    train::statistics<test::ring> sums;
    step.add_evaluation(compute, memory, std::span(&batch, 1), sums);
    CHECK(memory.peak() == planned);
    CHECK(sums.tokens == 2 * length);
  });
}

TEST_CASE("operations grow with the microbatch") {
  ring_model model(2, 4, vocabulary);
  zeros const one(1);
  zeros const four(4);
  auto const small = train::plan_microbatch(model, one.view()).operations;
  CHECK(small > 0);
  CHECK(train::plan_microbatch(model, four.view()).operations == 4 * small);
}

}  // namespace
}  // namespace plan_test
