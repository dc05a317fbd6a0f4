// After the first steps, a training step allocates a little bookkeeping on the heap, and no
// scratch.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <mpt/config/model/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

#include "../../bench/parts/allocations.hpp"

namespace step_test {

using parallel::bf16;
using parallel::index;

mpt::model_config small() {
  auto config = mpt::named_size("125m");
  config.n_layers = 3;
  config.d_model = 64;
  config.n_heads = 4;
  config.vocab_size = 300;
  config.max_seq_len = 512;
  return config;
}

/// The least that one of several steps asked for, after two others. (Not every one: a step in which
/// the queue of a stream grows longer than ever before asks for room.)
template <class T>
bench::allocations of_a_step(mpt::model_config const& config, index length) {
  parallel::host::device device;
  parallel::host::stream compute({.threads = 2});
  parallel::host::stream exchanges;
  parallel::single comm;
  mpt::model<T> net(config);
  parallel::train::stepper step(
      net, device, comm, parallel::decoupled_adamw{.learning_rate = 1e-3},
      {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0}});
  parallel::arena memory(device.template allocate<std::byte>(
      parallel::train::plan_microbatch(net, mpt::sequences::shape_of(2, length)).activations));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * length));
  std::iota(ids.begin(), ids.end(), 0);
  for (auto& id : ids) id %= 300;
  index const count = std::ssize(ids);
  mpt::microbatch const batch{{ids.data(), {count}}, {ids.data(), {count}}, 2, length, count};
  step.initialise(1);

  bench::allocations smallest{~std::size_t{0}, ~std::size_t{0}, ~std::size_t{0}};
  index const first = 0;
  for (std::uint32_t number = 0; number < 10; ++number) {
    static_cast<void>(bench::take_allocations());
    auto const result = step.step(compute, exchanges, memory,
                                  {{&batch, 1}, {&first, 1}, {.seed = 1, .step = number}, 1.0});
    auto const asked = bench::take_allocations();
    REQUIRE(result.sums.tokens == count);
    if (number >= 2 && asked.calls < smallest.calls) smallest = asked;
  }
  return smallest;
}

/// Bookkeeping is the same for sequences of any length, and small. (A request that is done before
/// it is told what to keep alive keeps no list of it: some bytes more or less.)
template <class T>
void check(mpt::model_config const& config) {
  auto const brief = of_a_step<T>(config, 64);
  auto const longer = of_a_step<T>(config, 512);
  MESSAGE(longer.calls << " allocations, " << longer.bytes << " bytes, the largest "
                       << longer.largest);
  CHECK(longer.largest == brief.largest);
  CHECK(longer.bytes <= brief.bytes + 1024);
  CHECK(longer.bytes <= 22000);
  // the schedule's list of what every block keeps
  CHECK(longer.largest <=
        static_cast<std::size_t>(config.n_layers) * sizeof(typename mpt::model<T>::block::saved));
}

TEST_CASE("allocations: a step with learned positions and biases allocates no scratch") {
  check<float>(small());
  check<bf16>(small());
}

TEST_CASE(
    "allocations: a step with rope, grouped queries, rms_norm and gated layers allocates no "
    "scratch") {
  auto config = small();
  config.learned_pos_emb = false;
  config.attn.rope.emplace();
  config.attn.kv_n_heads = 2;
  config.norm_type = mpt::norm_kind::low_precision_rmsnorm;
  config.ffn_type = mpt::ffn_kind::mptglu;
  check<float>(config);
  check<bf16>(config);
}

}  // namespace step_test
