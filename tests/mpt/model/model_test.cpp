// The model with LLM Foundry's further options (gated feed-forward, RMSNorm, an untied head, capped
// logits, every dropout) gives the same loss and gradients for every layout of its sequences over
// ranks and microbatches: in fp64, to 1e-12 of the largest gradient.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

namespace model_layouts_test {

using parallel::index;
namespace zero = parallel::zero;

constexpr index sequences = 5;
constexpr index length = 6;

/// A gated feed-forward layer, RMSNorm of 1 + weight on both sides, an untied head, capped logits,
/// scaled embeddings and results, and all dropouts.
mpt::model_config gated_untied() {
  mpt::model_config m;
  m.d_model = 12;
  m.n_heads = 3;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = length;
  m.ffn_hidden_size = 12;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.ffn_act_fn = parallel::ops::activation_kind::silu;
  m.norm_type = mpt::norm_kind::rmsnorm;
  m.branch_norms = mpt::norm_position::both;
  m.norm_unit_offset = true;
  m.embedding_scale = 3;
  m.residual_scale = 0.5;
  m.tie_word_embeddings = false;
  m.final_logit_softcapping = 2.0;
  m.embedding_fraction = 0.5;
  m.resid_pdrop = m.emb_pdrop = m.attn.attn_pdrop = 0.25;
  check_model(m, "");
  return m;
}

/// All options of attention: shared keys, rotary positions, windows, caps, packed documents; norms
/// behind its results, and one matrix for gate and up.
mpt::model_config all_attention_options() {
  mpt::model_config m;
  m.d_model = 24;
  m.n_heads = 6;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = length;
  m.expansion_ratio = 2;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.fused_gate = true;
  m.branch_norms = mpt::norm_position::output;
  m.learned_pos_emb = false;
  m.attn.kv_n_heads = 2;
  m.attn.fused_qkv = false;
  m.attn.qk_gn = true;
  m.attn.attn_pdrop = 0.1;
  m.attn.clip_qkv = 1.5;
  m.attn.rope = mpt::rope_config{.theta = 100};
  m.attn.sliding_window_size = 2;
  m.attn.attn_uses_sequence_id = true;
  m.attn.attn_logit_softcapping = 4;
  m.layers.resize(2);
  m.layers[0] = {.rope_theta = 50};
  m.layers[1] = {.sliding_window_size = -1, .floor_scale = 3, .attn_scale = 0.2, .nope = true};
  check_model(m, "");
  return m;
}

/// A model whose second block has five experts of two, with all losses, and either biases or an
/// expert for all tokens.
mpt::model_config with_experts(bool has_shared_expert) {
  mpt::model_config m;
  m.d_model = 12;
  m.n_heads = 6;
  m.n_layers = 2;
  m.vocab_size = 19;
  m.max_seq_len = length;
  m.ffn_hidden_size = 10;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.experts = {.count = 5,
               .top_k = 2,
               .hidden = 8,
               .weight_norm = 1,
               .loss_weight = 0.3,
               .z_loss_weight = 0.1,
               .balance_set = parallel::balance_set::sequence,
               .dense_layers = {0}};
  m.no_bias = has_shared_expert;
  m.experts->has_shared_gate = has_shared_expert;
  if (has_shared_expert) m.experts->shared_hidden = 6;
  check_model(m, "");
  return m;
}

/// A model of which no size is divisible: 15 query heads and 5 key heads, all normalised together.
mpt::model_config indivisible() {
  mpt::model_config m;
  m.d_model = 30;
  m.n_heads = 15;
  m.n_layers = 2;
  m.vocab_size = 19;
  m.max_seq_len = length;
  m.ffn_hidden_size = 7;
  m.ffn_type = mpt::ffn_kind::mptglu;
  m.learned_pos_emb = false;
  m.attn.kv_n_heads = 5;
  m.attn.qk_ln = true;
  m.attn.alibi = true;
  m.attn.attn_pdrop = m.resid_pdrop = 0.1;
  check_model(m, "");
  return m;
}

/// The model with adapters, which have dropout, for every linear layer.
mpt::model_config with_adapters(mpt::model_config m) {
  m.lora = {.rank = 3,
            .alpha = 6,
            .dropout = 0.2,
            .targets = {"Wqkv", "Wq", "Wk", "Wv", "out_proj", "up_proj", "gate_proj",
                        "gate_up_proj", "down_proj"}};
  return m;
}

/// The optimizer's groups: a model with adapters trains the adapters alone.
parallel::train::optimizer_groups<parallel::decoupled_adamw> make_optimizer_groups(
    mpt::model_config const& config) {
  return {{parallel::decoupled_adamw{}}, [adapts = config.lora.has_value()](auto const& name) {
            return parallel::segment_key{.trainable = !adapts || mpt::is_adapter(name)};
          }};
}

struct layout {
  int ranks = 1;  // data parallel
  zero::level level = zero::level::none;
  index microbatch = sequences;
  int tensor = 1;
  bool divide_rows = false;
  int experts = 1;  // data ranks that divide the experts

  [[nodiscard]] parallel::training_layout shape() const {
    return parallel::train::process_groups<parallel::any_communicator>::data_layout(level, ranks)
        .with_degree<parallel::axis::tensor>(tensor);
  }
};

struct outcome {
  double loss = 0, squared_norm = 0;
  std::vector<double> record;
  std::map<std::string, std::vector<double>> gradients;
};

/// One training step of the whole batch.
outcome run(mpt::model_config const& config, layout const& tested_layout) {
  outcome out;
  std::mutex lock;
  parallel::threads::run(tested_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::arena memory(device.allocate<std::byte>(std::size_t{4} << 20));
    parallel::host::stream compute, exchanges, tensor_exchanges, overlapped_exchanges,
        expert_exchanges;
    parallel::train::process_groups groups(parallel::any_communicator(comm.split(0)),
                                           tested_layout.shape(), tested_layout.level,
                                           tested_layout.experts);
    mpt::model_groups model_groups{
        .tensor = {{groups.tensor, tensor_exchanges, overlapped_exchanges},
                   tested_layout.divide_rows}};
    if (tested_layout.experts > 1) model_groups.experts = {*groups.experts(), expert_exchanges};
    mpt::model<double> net(config, model_groups);
    net.visit_units([](auto const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([](auto& p) {  // with B = 0, A has no gradient in the first step
        if (p.name.ends_with(mpt::lora_b_suffix)) p.initial = parallel::normal_init{0.3F};
      });
    });
    parallel::train::stepper stepper(net, device, groups, make_optimizer_groups(config),
                                     {.level = tested_layout.level, .bucket_bytes = 2000});
    stepper.initialise(42);
    std::vector<std::int32_t> ids(sequences * length), labels(ids.size());
    parallel::philox const random(7, parallel::stream_id("tokens"));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 18U);
      labels[i] = i % 5 == i / length ? -100 : static_cast<std::int32_t>(random.bits(i + 1) % 18U);
    }
    using side = mpt::document_separator::side;
    mpt::sequences const documents(ids, length, {side::ends_document, ids[2]});
    std::vector<mpt::microbatch> batches;
    std::vector<index> first_sequences;
    auto const own_position = groups.place();
    auto const own_share = parallel::data::share_of(
        sequences, own_position.replica * own_position.shards + own_position.shard,
        own_position.data_ranks());
    for (auto const& part : parallel::data::microbatches(own_share, tested_layout.microbatch)) {
      index const rows = part.size() * length;
      auto* const first_label = labels.data() + part.begin * length;
      batches.push_back({.ids = {ids.data() + part.begin * length, {rows}},
                         .labels = {first_label, {rows}},
                         .sequences = part.size(),
                         .length = length,
                         .loss_tokens = std::count_if(first_label, first_label + rows,
                                                      [](auto l) { return l >= 0; }),
                         .document_begins = documents.view(part).document_begins});
      first_sequences.push_back(part.begin);
    }
    auto const padded_count = static_cast<std::size_t>(parallel::data::max_microbatches(
        sequences, own_position.data_ranks(), tested_layout.microbatch));
    batches.resize(padded_count);
    first_sequences.resize(padded_count);
    auto const result = stepper.step(compute, exchanges, memory,
                                     {batches, first_sequences, {.seed = 42, .step = 3}, 1.0});
    std::scoped_lock const guard(lock);
    out.loss = result.sums.loss;
    out.squared_norm = result.squared_norm;
    out.record = result.record;
    for (auto const& unit : stepper.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& m = unit.memory.segments()[s];
        if (!unit.memory.is_trainable(s)) continue;
        unit.memory.layout().segments()[s].for_each_piece(
            m.owned.begin, m.owned.end, [&](auto const& p, index from, index to, index offset) {
              index size = 1;
              for (index const extent : p.tensor_extents()) size *= extent;
              auto& gradient = out.gradients[p.name];
              gradient.resize(static_cast<std::size_t>(size));
              auto const owned = unit.memory.owned_gradients(s);
              p.for_each_run(from, to, [&](index begin, index count, index global) {
                for (index i = 0; i < count; ++i)
                  gradient[static_cast<std::size_t>(global + i)] =
                      owned[static_cast<std::size_t>(offset - m.owned.begin + begin - from + i)];
              });
            });
      }
  });
  return out;
}

/// Checks that every layout gives one rank's loss and gradients, and returns those.
/// `tensor_degrees`: the degrees of the tensor axis to check.
outcome check_layouts(mpt::model_config const& config, std::vector<int> const& tensor_degrees) {
  outcome const expected = run(config, {});
  double largest = 0;
  for (auto const& [name, gradient] : expected.gradients)
    for (double const g : gradient) largest = std::max(largest, std::abs(g));
  REQUIRE(largest > 0);
  auto const check = [&](layout const& tested_layout) {
    CAPTURE(tested_layout.ranks);
    CAPTURE(static_cast<int>(tested_layout.level));
    CAPTURE(tested_layout.microbatch);
    CAPTURE(tested_layout.tensor);
    CAPTURE(tested_layout.divide_rows);
    auto const found = run(config, tested_layout);
    CHECK(std::abs(found.loss - expected.loss) <= 1e-13 * expected.loss);
    CHECK(std::abs(found.squared_norm - expected.squared_norm) <= 1e-12 * expected.squared_norm);
    REQUIRE(found.record.size() == expected.record.size());
    for (std::size_t i = 0; i < found.record.size(); ++i)
      CHECK(std::abs(found.record[i] - expected.record[i]) <= 1e-12 * std::abs(expected.record[i]));
    REQUIRE(found.gradients.size() == expected.gradients.size());
    for (auto const& entry : expected.gradients) {
      auto const& [name, gradient] = entry;
      CAPTURE(entry.first);
      auto const& other = found.gradients.at(name);
      double worst = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        worst = std::max(worst, std::abs(other[i] - gradient[i]));
      CHECK(worst <= 1e-12 * largest);
    }
  };
  for (int const ranks : {1, 2, 3})
    for (auto const level : {zero::level::none, zero::level::optimizer, zero::level::gradients,
                             zero::level::parameters})
      for (index const microbatch : {1, 2}) check({ranks, level, microbatch});
  for (int const degree : tensor_degrees)
    for (bool const divide_rows : {false, true})
      for (int const ranks : {1, 2})
        for (auto const level : {zero::level::none, zero::level::parameters})
          if (!divide_rows || length % degree == 0) check({ranks, level, 2, degree, divide_rows});
  if (config.experts)
    for (auto const level : {zero::level::none, zero::level::optimizer, zero::level::gradients,
                             zero::level::parameters})
      for (int const tensor : {1, 2}) check({5, level, 1, tensor, false, 5});
  return expected;
}

TEST_CASE("model, gated and untied, with all dropouts: all layouts give one rank's gradients") {
  auto const reference = check_layouts(gated_untied(), {2, 3});
  CHECK(reference.gradients.contains("lm_head.weight"));
  CHECK(reference.gradients.contains("transformer.blocks.1.ffn.gate_proj.weight"));
}

TEST_CASE(
    "model with shared keys, rotary positions, windows and packed texts: all layouts give one "
    "rank's gradients") {
  auto const reference = check_layouts(all_attention_options(), {2, 4, 6});
  CHECK(reference.gradients.contains("transformer.blocks.1.attn.Wk.weight"));
  auto unpacked = all_attention_options();
  unpacked.attn.attn_uses_sequence_id = false;
  CHECK(run(unpacked, {}).loss != reference.loss);
}

TEST_CASE("model with adapters: all layouts give one rank's gradients of both factors") {
  auto const reference = check_layouts(with_adapters(gated_untied()), {2, 3});
  CHECK(reference.gradients.contains("transformer.blocks.1.ffn.gate_proj.lora_A.weight"));
  for (auto const& entry : reference.gradients) {
    auto const& [name, gradient] = entry;
    CAPTURE(entry.first);
    CHECK(mpt::is_adapter(name));
    CHECK(std::ranges::any_of(gradient, [](double g) { return g != 0; }));
  }
  CHECK(reference.gradients.size() == 2 * 2 * 5);
  auto const shared = check_layouts(with_adapters(all_attention_options()), {2, 4});
  CHECK(shared.gradients.contains("transformer.blocks.1.attn.Wk.lora_B.weight"));
}

TEST_CASE(
    "adapter: a fused projection whose key heads are shared by ranks is refused with the reason") {
  auto fused = with_adapters(all_attention_options());
  fused.attn.fused_qkv = true;
  fused.attn.qk_gn = false;
  std::string message;
  try {
    static_cast<void>(run(fused, {.tensor = 4}));
  } catch (parallel::error const& problem) {
    message = problem.what();
  }
  CHECK(
      message.find("4 ranks share 2 key heads, where transformer.blocks.0.attn.Wqkv.weight cannot "
                   "have an adapter") != std::string::npos);
}

TEST_CASE("model, unequal tensor slices: all layouts give one rank's gradients") {
  auto const reference = check_layouts(indivisible(), {2, 3, 4, 5});
  CHECK(reference.gradients.contains("transformer.blocks.1.attn.k_ln.weight"));
  auto one_key = indivisible();
  one_key.attn.kv_n_heads = 1;  // shared by ranks with different numbers of query heads
  static_cast<void>(check_layouts(one_key, {4, 7}));
}

TEST_CASE(
    "model with experts: all layouts give one rank's gradients, also where ranks divide experts") {
  for (bool const has_shared_expert : {false, true}) {
    CAPTURE(has_shared_expert);
    auto const reference = check_layouts(with_experts(has_shared_expert), {2, 3});
    std::string const block = "transformer.blocks.1.ffn.";
    CHECK(reference.gradients.contains("transformer.blocks.0.ffn.up_proj.weight"));
    for (char const* const name :
         {"router.layer.weight", "experts.mlp.w1", "experts.mlp.v1", "experts.mlp.w2"})
      CHECK(reference.gradients.contains(block + name));
    CHECK(reference.gradients.contains(block + "experts.bias") == !has_shared_expert);
    for (char const* const name : {"shared_expert.w2", "shared_expert_gate.weight"})
      CHECK(reference.gradients.contains(block + name) == has_shared_expert);
    CHECK(reference.gradients.at(block + "experts.mlp.v1").size() == 5 * 8 * 12);
  }
}

TEST_CASE("dropout: each dropout changes the loss, and equal seeds give equal losses") {
  auto config = gated_untied();
  double const expected = run(config, {}).loss;
  for (double* const p : {&config.resid_pdrop, &config.emb_pdrop, &config.attn.attn_pdrop}) {
    double const probability = std::exchange(*p, 0.0);
    CHECK(run(config, {}).loss != expected);
    *p = probability;
  }
  CHECK(run(config, {}).loss == expected);
}

}  // namespace model_layouts_test
