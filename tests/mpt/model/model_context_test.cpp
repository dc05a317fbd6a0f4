// The whole model on ranks that hold parts of the same sequences, by the ring and by the exchange
// of heads: fp64, one rank's loss and gradients to 1e-12 of the largest gradient, with everything
// that depends on positions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/model.hpp>
#include <mpt/train/sequences.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/groups.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

namespace model_context_test {

using context_method = parallel::context_parallel::method;
using parallel::index;
namespace axis = parallel::axis;

constexpr index sequences = 3;
constexpr index length = 24;

mpt::model_config base() {
  mpt::model_config m;
  m.d_model = 48;
  m.n_heads = 12;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = length;
  m.expansion_ratio = 1;
  return m;
}

/// Learned positions and every dropout, keyed by position and head.
mpt::model_config learned() {
  auto m = base();
  m.embedding_fraction = 0.5;
  m.resid_pdrop = m.emb_pdrop = m.attn.attn_pdrop = 0.25;
  m.attn.qk_ln = true;
  check_model(m, "");
  return m;
}

/// ALiBi by global head and distance, packed texts.
mpt::model_config biased() {
  auto m = base();
  m.learned_pos_emb = false;
  m.attn.alibi = true;
  m.attn.attn_uses_sequence_id = true;
  m.attn.attn_pdrop = 0.1;
  check_model(m, "");
  return m;
}

/// Rotary positions, shared keys, a window, a cap, packed texts, growing temperature.
mpt::model_config rotary(index kv_heads) {
  auto m = base();
  m.learned_pos_emb = false;
  m.attn.kv_n_heads = kv_heads;
  m.attn.fused_qkv = false;
  m.attn.qk_gn = true;
  m.attn.clip_qkv = 1.5;
  m.attn.rope = mpt::rope_config{.theta = 100};
  m.attn.sliding_window_size = 5;
  m.attn.attn_uses_sequence_id = true;
  m.attn.attn_logit_softcapping = 4;
  m.layers.resize(2);
  m.layers[1] = {.sliding_window_size = -1, .floor_scale = 3, .attn_scale = 0.2, .nope = true};
  check_model(m, "");
  return m;
}

struct outcome {
  double loss = 0, squared_norm = 0, evaluated = 0;
  std::int64_t tokens = 0;
  std::size_t peak = 0;  // bytes of activations
  std::map<std::string, std::vector<double>> gradients;
};

struct layout {
  int context = 1;
  context_method method = context_method::ring;
  int tensor = 1;
  int replicate = 1;
};

/// One training step of the whole batch in microbatches of two sequences, and an evaluation.
outcome run(mpt::model_config const& config, layout const& how) {
  outcome out;
  std::mutex lock;
  auto const shape = parallel::training_layout{}
                         .with<axis::context>(how.context)
                         .with<axis::tensor>(how.tensor)
                         .with<axis::replicate>(how.replicate);
  parallel::threads::run(shape.ranks(), [&](parallel::threads::communicator& comm) {
    using parallel::any_communicator;
    int const rank = comm.rank();
    parallel::host::device device;
    parallel::host::stream compute, traffic, to_next, from_previous, across;
    parallel::arena memory(device.allocate<std::byte>(std::size_t{16} << 20));
    parallel::train::training_groups<any_communicator> ranks(any_communicator(std::move(comm)),
                                                             shape);
    mpt::model_groups groups{.context = {.method = how.method}};
    if (how.context > 1) groups.context.group = {ranks.context, to_next, from_previous};
    if (how.tensor > 1) groups.tensor = {{ranks.tensor, across}, true};
    mpt::model<double> net(config, groups);
    parallel::train::stepper stepper(net, device, ranks, parallel::decoupled_adamw{},
                                     {.bucket_bytes = 20000});
    stepper.initialise(42);
    std::vector<std::int32_t> ids(sequences * length);
    parallel::philox const random(7, parallel::stream_id("tokens"));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 18U);
    using side = mpt::document_separator::side;
    mpt::sequences const all(ids, length, {side::ends_document, ids[2]});
    auto const mine = all.divided(
        parallel::context_parallel::division(ranks.context.rank(), how.context, length));
    std::vector<mpt::microbatch> batches;
    std::vector<index> first;
    auto const share =
        parallel::data::share_of(sequences, shape.coordinate<axis::replicate>(rank), how.replicate);
    for (auto const& part : parallel::data::microbatches(share, 2)) {
      batches.push_back(mine.view(part));
      first.push_back(part.begin);
    }
    parallel::train::statistics<double> sums;
    stepper.add_evaluation(compute, memory, std::span(std::as_const(batches)), sums);
    stepper.add_over_ranks(traffic, sums);
    auto const result = stepper.step(compute, traffic, memory, std::span(std::as_const(batches)),
                                     std::span(std::as_const(first)), {.seed = 42, .step = 3}, 1.0);
    std::scoped_lock const guard(lock);
    out.peak = memory.peak();
    out.evaluated = sums.loss;
    out.loss = result.sums.loss;
    out.tokens = result.sums.tokens;
    out.squared_norm = result.squared_norm;
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        unit.memory.layout().segments()[s].for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index at) {
              auto& gradient = out.gradients[p.name];
              index size = 1;
              for (index const extent : p.tensor_extents()) size *= extent;
              gradient.resize(static_cast<std::size_t>(size));
              p.for_each_run(from, to, [&](index begin, index count, index global) {
                std::copy_n(m.gradients[0].data() + at + begin - from, count,
                            gradient.begin() + global);
              });
            });
      }
  });
  return out;
}

void check(mpt::model_config const& config, std::vector<layout> const& layouts) {
  outcome const one = run(config, {});
  CHECK(one.tokens == sequences * (length - 1));
  double largest = 0;
  for (auto const& [name, gradient] : one.gradients)
    for (double const g : gradient) largest = std::max(largest, std::abs(g));
  REQUIRE(largest > 0);
  for (auto const& how : layouts) {
    CAPTURE(how.context);
    CAPTURE(static_cast<int>(how.method));
    CAPTURE(how.tensor);
    CAPTURE(how.replicate);
    auto const found = run(config, how);
    CHECK(found.tokens == one.tokens);
    CHECK(std::abs(found.loss - one.loss) <= 1e-13 * one.loss);
    CHECK(std::abs(found.evaluated - one.evaluated) <= 1e-13 * one.evaluated);
    CHECK(std::abs(found.squared_norm - one.squared_norm) <= 1e-12 * one.squared_norm);
    REQUIRE(found.gradients.size() == one.gradients.size());
    double worst = 0;
    for (auto const& [name, gradient] : one.gradients) {
      auto const& other = found.gradients.at(name);
      REQUIRE(other.size() == gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i)
        worst = std::max(worst, std::isnan(other[i]) ? 1e300 : std::abs(other[i] - gradient[i]));
    }
    CHECK(worst <= 1e-12 * largest);
  }
}

std::vector<layout> by(context_method method) { return {{2, method}, {3, method}, {4, method}}; }

TEST_CASE("learned positions and dropout do not depend on the number of ranks") {
  check(learned(), by(context_method::ring));
  check(learned(), by(context_method::ulysses));
}

TEST_CASE("ALiBi and packed texts do not depend on the number of ranks") {
  check(biased(), by(context_method::ring));
  check(biased(), by(context_method::ulysses));
}

TEST_CASE("rotary positions, windows, caps, temperature and shared keys do not either") {
  check(rotary(12), by(context_method::ulysses));
  check(rotary(4), by(context_method::ring));
  check(rotary(1), by(context_method::ring));
}

TEST_CASE("with heads and rows divided over tensor ranks, and other sequences on others") {
  std::vector<layout> const mixed{
      {.context = 2, .method = context_method::ring, .tensor = 2},
      {.context = 3, .method = context_method::ulysses, .tensor = 2},
      {.context = 2, .method = context_method::ulysses, .tensor = 2, .replicate = 2}};
  check(biased(), mixed);
  check(rotary(12), mixed);
  auto dropping = learned();
  dropping.attn.qk_ln = false;
  check(dropping, mixed);
}

TEST_CASE("the meta device plans the activations of a rank to the byte") {
  auto const config = rotary(12);
  for (auto const& how : by(context_method::ring)) {
    mpt::model_groups groups;
    groups.context.group = decltype(groups.context.group)::planned(0, how.context);
    for (auto const method : {context_method::ring, context_method::ulysses}) {
      groups.context.method = method;
      mpt::model<double> const planned(config, groups);
      auto const batch = mpt::sequences::shape_of(2, length / how.context);
      CHECK(parallel::train::plan_microbatch(planned, batch).activations ==
            run(config, {how.context, method}).peak);
    }
  }
}

TEST_CASE("heads that cannot be exchanged, and sequences that cannot be divided, are refused") {
  mpt::model_groups ranks;
  ranks.context = {decltype(mpt::context_ranks::group)::planned(0, 3), context_method::ulysses};
  CHECK_THROWS_WITH_AS(mpt::model<double>(rotary(4), ranks),
                       "context: 4 key heads cannot be divided among 3 ranks, as the exchange of "
                       "heads needs; set the context degree to 2 or 4, or choose the ring",
                       parallel::error);
  ranks.context.method = context_method::ring;
  CHECK_NOTHROW(mpt::model<double>(rotary(4), ranks));
  std::vector<std::int32_t> const ids(20);
  mpt::sequences const all(ids, 10);
  CHECK_THROWS_AS(static_cast<void>(all.divided(parallel::context_parallel::division(0, 2, 20))),
                  parallel::error);
  CHECK_THROWS_AS(parallel::context_parallel::division(0, 2, 10), parallel::error);
}

}  // namespace model_context_test
