// The whole model on ranks that hold parts of the same sequences, by the ring and by the exchange
// of heads, with every option that depends on positions. In fp64, loss and gradients equal one
// rank's to 1e-12 of the largest gradient.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/model_comparison.hpp"

namespace model_context_test {

using parallel::index;
using test::context_method;
using test::model_layout;
using test::run_model;

constexpr index sequences = test::model_sequences;
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

/// Learned positions and every dropout; the random numbers depend on position and head.
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

/// LongRoPE in a part of each head, beyond the positions trained on, shared keys, a window, a cap,
/// packed texts, growing temperature; scaled embeddings and norms on both sides.
mpt::model_config rotary(index kv_heads) {
  auto m = base();
  m.learned_pos_emb = false;
  m.attn.kv_n_heads = kv_heads;
  m.attn.fused_qkv = false;
  m.attn.qk_gn = true;
  m.attn.clip_qkv = 1.5;
  m.attn.rope = mpt::rope_config{.theta = 100,
                                 .scaling = mpt::long_rope{.short_factor = {1},
                                                           .long_factor = {3},
                                                           .original_max_position_embeddings = 23,
                                                           .attention_factor = 1.2},
                                 .rotary_dim = 2};
  m.embedding_scale = 3;
  m.branch_norms = mpt::norm_position::both;
  m.attn.sliding_window_size = 5;
  m.attn.attn_uses_sequence_id = true;
  m.attn.attn_logit_softcapping = 4;
  m.layers.resize(2);
  m.layers[1] = {.sliding_window_size = -1, .floor_scale = 3, .attn_scale = 0.2, .nope = true};
  check_model(m, "");
  return m;
}

void check(mpt::model_config const& config, std::vector<model_layout> const& layouts) {
  auto const one = run_model(config, {});
  CHECK(one.tokens == sequences * (config.max_seq_len - 1));
  for (auto const& layout : layouts) {
    CAPTURE(layout.context);
    CAPTURE(static_cast<int>(layout.method));
    CAPTURE(layout.tensor);
    CAPTURE(layout.replicate);
    test::check_equal(run_model(config, layout), one);
  }
}

std::vector<model_layout> layouts_with(context_method method) {
  return {{2, method}, {3, method}, {4, method}};
}

TEST_CASE("experts with jitter: gradients do not depend on the layout") {
  auto config = test::packed_alibi_model();
  auto& experts = config.experts.emplace();
  experts.count = 4;
  experts.top_k = 2;
  experts.loss_weight = 0.5;
  experts.balance_set = parallel::balance_set::sequence;
  auto const without_jitter = run_model(config, {});
  experts.jitter = 0.2;
  check(config, {{.context = 2},
                 {.tensor = 2},
                 {.tensor = 2, .sequence_parallel = false},
                 {.replicate = 3},
                 {.pipeline = 2, .schedule = {.schedule = "zb-h1"}, .microbatch = 1}});
  auto const with_jitter = run_model(config, {});
  CHECK(with_jitter.loss != without_jitter.loss);
  CHECK(with_jitter.evaluated == without_jitter.evaluated);
}

TEST_CASE("context parallel: learned positions and dropout do not depend on the number of ranks") {
  check(learned(), layouts_with(context_method::ring));
  check(learned(), layouts_with(context_method::ulysses));
}

TEST_CASE("context parallel: ALiBi and packed texts do not depend on the number of ranks") {
  check(biased(), layouts_with(context_method::ring));
  check(biased(), layouts_with(context_method::ulysses));
}

TEST_CASE(
    "context parallel: rotary positions, windows, caps, temperature and shared keys do not depend "
    "on the number of ranks") {
  check(rotary(12), layouts_with(context_method::ulysses));
  check(rotary(4), layouts_with(context_method::ring));
  check(rotary(1), layouts_with(context_method::ring));
}

TEST_CASE("context parallel with tensor and data parallel: one rank's loss and gradients") {
  std::vector<model_layout> const mixed{
      {.context = 2, .method = context_method::ring, .tensor = 2},
      {.context = 3, .method = context_method::ulysses, .tensor = 2},
      {.context = 2, .method = context_method::ulysses, .tensor = 2, .replicate = 2}};
  check(biased(), mixed);
  check(rotary(12), mixed);
  check(learned(), mixed);
}

/// Norms over all heads together, which are divided over tensor ranks.
mpt::model_config normalised(index kv_heads, mpt::norm_kind kind) {
  auto m = base();
  m.attn.kv_n_heads = kv_heads;
  m.attn.fused_qkv = kv_heads == 12;
  m.attn.qk_ln = true;
  m.attn.norm_type = kind;
  m.attn.clip_qkv = 1.5;
  check_model(m, "");
  return m;
}

TEST_CASE("query and key norms: norms over all heads do not depend on the tensor layout") {
  std::vector<model_layout> const divided{
      {.tensor = 2},
      {.tensor = 3},
      {.tensor = 3, .sequence_parallel = false},
      {.context = 2, .tensor = 2},
      {.context = 2, .tensor = 3},
      {.context = 2, .method = context_method::ulysses, .tensor = 2, .replicate = 2},
      {.tensor = 2, .pipeline = 2, .schedule = {.schedule = "zb-h1"}},
      {.tensor = 3, .recompute = mpt::recompute_all(2)}};
  check(normalised(12, mpt::norm_kind::layernorm), divided);
  // some ranks share a key head, and with 5 positions rows do not divide
  std::vector<model_layout> const shared{{.tensor = 2, .sequence_parallel = false},
                                         {.tensor = 3, .sequence_parallel = false},
                                         {.tensor = 6, .sequence_parallel = false}};
  for (index const kv_heads : {1, 2, 3}) {
    auto config = normalised(kv_heads, mpt::norm_kind::rmsnorm);
    config.max_seq_len = 5;
    if (kv_heads == 2)  // three ranks cannot share two heads
      check(config, {shared[0], shared[2]});
    else
      check(config, {shared.begin() + (kv_heads == 3), shared.end()});
  }
}

TEST_CASE("meta device: the plan of a context or tensor rank's activations is exact to the byte") {
  auto const config = rotary(12);
  for (auto const& layout : layouts_with(context_method::ring)) {
    mpt::model_groups groups;
    groups.context.group = decltype(groups.context.group)::planned(0, layout.context);
    for (auto const method : {context_method::ring, context_method::ulysses}) {
      groups.context.method = method;
      mpt::model<double> const planned(config, groups);
      auto const batch = mpt::sequences::shape_of(2, length / layout.context);
      CHECK(parallel::train::plan_microbatch(planned, batch).activations ==
            run_model(config, {layout.context, method}).peak);
    }
  }
  auto const across_heads = normalised(12, mpt::norm_kind::layernorm);
  for (int const ranks : {2, 3})
    for (bool const sequence : {false, true}) {
      mpt::model_groups groups;
      groups.tensor = {decltype(groups.tensor.group)::planned(0, ranks), sequence};
      mpt::model<double> const planned(across_heads, groups);
      CHECK(parallel::train::plan_microbatch(planned, mpt::sequences::shape_of(2, length))
                .activations ==
            run_model(across_heads, {.tensor = ranks, .sequence_parallel = sequence}).peak);
    }
}

TEST_CASE(
    "context parallel: heads that cannot be exchanged and sequences that cannot be divided are "
    "refused") {
  mpt::model_groups ranks;
  ranks.context = {decltype(mpt::context_ranks::group)::planned(0, 3), context_method::ulysses};
  CHECK_THROWS_WITH_AS(mpt::model<double>(rotary(4), ranks),
                       "context: 4 key heads cannot be divided among 3 ranks, as the exchange of "
                       "heads needs; set the context degree to 2 or 4, or choose the ring",
                       parallel::error);
  ranks.context.method = context_method::ring;
  CHECK_NOTHROW(mpt::model<double>(rotary(4), ranks));
  std::vector<std::int32_t> const ids(20);
  mpt::sequences const batch(ids, 10);
  CHECK_THROWS_AS(
      static_cast<void>(batch.divided(parallel::context_parallel::sequence_partition(0, 2, 20))),
      parallel::error);
  CHECK_THROWS_AS(parallel::context_parallel::sequence_partition(0, 2, 10), parallel::error);
}

}  // namespace model_context_test
