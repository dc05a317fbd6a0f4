// The whole model on ranks that hold parts of the same sequences, by the ring and by the exchange
// of heads: fp64, one rank's loss and gradients to 1e-12 of the largest gradient, with everything
// that depends on positions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/model.hpp>
#include <mpt/train/sequences.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

namespace model_context_test {

using context_method = parallel::context_parallel::method;
using parallel::index;

constexpr index sequences = 3;
constexpr index length = 24;

mpt::model_config base() {
  mpt::model_config m;
  m.d_model = 48;
  m.n_heads = 12;
  m.n_layers = 2;
  m.vocab_size = 19;
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
  std::map<std::string, std::vector<double>> gradients;
};

/// One training step of the whole batch in microbatches of two sequences, and an evaluation.
outcome run(mpt::model_config const& config, int ranks, context_method method) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream compute, traffic, to_next, from_previous;
    parallel::arena memory(device.allocate<std::byte>(std::size_t{16} << 20));
    parallel::any_communicator along(comm.split(0, "context"));
    mpt::model_groups groups{.context = {.method = method}};
    if (ranks > 1) groups.context.group = {along, to_next, from_previous};
    mpt::model<double> net(config, groups);
    parallel::train::stepper stepper(net, device, comm, parallel::decoupled_adamw{},
                                     {.bucket_bytes = 20000});
    stepper.initialise(42);
    std::vector<std::int32_t> ids(sequences * length);
    parallel::philox const random(7, parallel::stream_id("tokens"));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 19U);
    using side = mpt::document_separator::side;
    mpt::sequences const all(ids, length, {side::ends_document, ids[2]});
    auto const mine = all.divided(parallel::context_parallel::division(comm.rank(), ranks, length));
    std::vector<mpt::microbatch> batches;
    std::vector<index> first;
    for (auto const& part : parallel::data::microbatches({0, sequences}, 2)) {
      batches.push_back(mine.view(part));
      first.push_back(part.begin);
    }
    parallel::train::statistics<double> sums;
    stepper.add_evaluation(compute, memory, std::span(std::as_const(batches)), sums);
    stepper.add_over_ranks(traffic, sums);
    auto const result = stepper.step(compute, traffic, memory, std::span(std::as_const(batches)),
                                     std::span(std::as_const(first)), {.seed = 42, .step = 3}, 1.0);
    std::scoped_lock const guard(lock);
    out.evaluated = sums.loss;
    out.loss = result.sums.loss;
    out.tokens = result.sums.tokens;
    out.squared_norm = result.squared_norm;
    if (comm.rank() != 0) return;
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        unit.memory.layout().segments()[s].for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index at) {
              auto& gradient = out.gradients[p.name];
              gradient.resize(static_cast<std::size_t>(p.size()));
              for (index i = from; i < to; ++i)
                gradient[static_cast<std::size_t>(i)] = m.gradients[0].data()[at + i - from];
            });
      }
  });
  return out;
}

void check(mpt::model_config const& config, std::vector<context_method> const& methods) {
  outcome const one = run(config, 1, context_method::ring);
  CHECK(one.tokens == sequences * (length - 1));
  double largest = 0;
  for (auto const& [name, gradient] : one.gradients)
    for (double const g : gradient) largest = std::max(largest, std::abs(g));
  REQUIRE(largest > 0);
  for (auto const method : methods)
    for (int const ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      CAPTURE(static_cast<int>(method));
      auto const found = run(config, ranks, method);
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

std::vector<context_method> const both{context_method::ring, context_method::ulysses};

TEST_CASE("learned positions and dropout do not depend on the number of ranks") {
  check(learned(), both);
}

TEST_CASE("ALiBi and packed texts do not depend on the number of ranks") { check(biased(), both); }

TEST_CASE("rotary positions, windows, caps, temperature and shared keys do not either") {
  check(rotary(12), {context_method::ulysses});
  check(rotary(4), {context_method::ring});
  check(rotary(1), {context_method::ring});
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
  CHECK_THROWS_AS(all.divided(parallel::context_parallel::division(0, 2, 20)), parallel::error);
  CHECK_THROWS_AS(parallel::context_parallel::division(0, 2, 10), parallel::error);
}

}  // namespace model_context_test
