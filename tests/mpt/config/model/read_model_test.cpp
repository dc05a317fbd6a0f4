// Tests of reading a model: defaults, every key, and what is refused.
#include <array>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/model/read_model.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace read_model_test {

inline mpt::model_config read(std::string const& text) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(root, "model", report);
  auto model = mpt::read_model(reader);
  reader.finish();
  return model;
}

inline std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(read(text)); });
}

TEST_CASE("model: an empty mapping is LLM Foundry's default") {
  auto const model = read("{}");
  CHECK(model == mpt::model_config{});
  CHECK(model.d_model == 2048);
  CHECK(model.n_layers == 24);
  CHECK(model.norm_type == mpt::norm_kind::low_precision_layernorm);
}

TEST_CASE("model: every key has its effect") {
  auto const model = read(R"(
name: mpt_causal_lm
d_model: 96
n_heads: 6
n_layers: 2
expansion_ratio: 2.5
max_seq_len: 64
vocab_size: 300
resid_pdrop: 0.1
emb_pdrop: 0.2
learned_pos_emb: true
no_bias: true
attention_bias: true
norm_type: layernorm
norm_eps: 1e-6
logit_scale: inv_sqrt_d_model
embedding_fraction: 0.1
attn_config: {attn_pdrop: 0.3, clip_qkv: 6, qk_ln: true, softmax_scale: 0.5, alibi: yes, alibi_bias_max: 16}
init_config: {name: baseline_, init_std: 0.02, emb_init_uniform_lim: [-0.1, 0.3], init_div_is_residual: 2, fan_mode: fan_out, init_gain: 1, init_nonlinearity: leaky_relu}
)");
  CHECK(mpt::ffn_hidden(model) == 240);
  CHECK(!model.learned_pos_emb);  // ALiBi
  CHECK(mpt::has_attention_bias(model));
  CHECK(model.norm_type == mpt::norm_kind::layernorm);
  CHECK(model.norm_eps == 1e-6);
  CHECK(model.logit_scale == 1 / std::sqrt(96.0));
  CHECK(model.embedding_fraction == 0.1);
  CHECK(model.attn.attn_pdrop == 0.3);
  CHECK(model.attn.clip_qkv == 6.0);
  CHECK(model.attn.qk_ln);
  CHECK(model.attn.softmax_scale == 0.5);
  CHECK(model.attn.alibi_bias_max == 16);
  CHECK(model.init.name == mpt::init_scheme::baseline);
  CHECK(model.init.emb_init_uniform_lim == std::array<double, 2>{-0.1, 0.3});
  CHECK(std::get<double>(model.init.init_div_is_residual) == 2);
  CHECK(model.init.fan_mode == "fan_out");
  CHECK(read("ffn_config: {ffn_type: mptmlp, ffn_hidden_size: 100, fc_type: {name: torch}}")
            .ffn_hidden_size == 100);
  CHECK(read("init_config: {emb_init_uniform_lim: 0.5}").init.emb_init_uniform_lim ==
        std::array<double, 2>{-0.5, 0.5});
  CHECK(!read("attn_config: {clip_qkv: 0}").attn.clip_qkv);
  CHECK(
      read(
          "{fc_type: torch, head_dim: 128, attn_config: {rope: false, sliding_window_size: -1}}") ==
      mpt::model_config{});
}

TEST_CASE("model: norms, feed-forward layers and heads of every kind are read") {
  CHECK(!mpt::is_rms(read("norm_type: layernorm").norm_type));
  for (std::string const norm : {"rmsnorm", "low_precision_rmsnorm", "triton_rmsnorm"})
    CHECK(mpt::is_rms(read("norm_type: " + norm).norm_type));
  CHECK(read("attn_config: {qk_ln: true, norm_type: rmsnorm}").attn.norm_type ==
        mpt::norm_kind::rmsnorm);
  CHECK(read("ffn_config: {ffn_type: mptglu}").ffn_type == mpt::ffn_kind::mptglu);
  auto const activation = [](std::string const& text) {
    return read("ffn_config: {ffn_act_fn: {" + text + "}}").ffn_act_fn;
  };
  using enum parallel::ops::activation_kind;
  CHECK(activation("name: gelu, approximate: none") == gelu);
  CHECK(activation("name: gelu, approximate: tanh") == gelu_tanh);
  CHECK(activation("name: quick_gelu") == quick_gelu);
  CHECK(activation("name: silu") == silu);
  CHECK(activation("name: relu") == relu);
  CHECK(!read("tie_word_embeddings: false").tie_word_embeddings);
  CHECK(read("final_logit_softcapping: 30").final_logit_softcapping == 30.0);
  CHECK(read("{fuse_norm_attn_norm: true, use_pad_tok_in_ffn: false}") == mpt::model_config{});
  CHECK(read("fc_type: {name: torch, bias: true, device: meta}") == mpt::model_config{});
}

TEST_CASE(
    "attn_config: each option is read, and settings of an option that is off have no effect") {
  auto const attn = read(R"(
attn_config:
  attn_type: grouped_query_attention
  kv_n_heads: 4
  fused_qkv: false
  qk_gn: true
  sliding_window_size: 128
  attn_logit_softcapping: 50
  attn_uses_sequence_id: true
  rope: true
  rope_theta: 500000
  rope_impl: hf
  rope_hf_config: {type: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 4096}
  rope_dail_config: {type: xpos}
  attn_temperature_tuning: {floor_scale: 1024, attn_scale: 0.1}
)");
  CHECK(mpt::kv_heads(attn) == 4);
  CHECK(!attn.learned_pos_emb);
  CHECK(!attn.attn.fused_qkv);
  CHECK(attn.attn.qk_gn);
  CHECK(attn.attn.sliding_window_size == 128);
  CHECK(attn.attn.attn_logit_softcapping == 50.0);
  CHECK(attn.attn.attn_uses_sequence_id);
  CHECK(attn.attn.temperature == mpt::temperature_config{1024, 0.1});
  CHECK(attn.attn.rope == mpt::rope_config{500000, mpt::llama3_rope{8, 1, 4, 4096}});
  CHECK(mpt::kv_heads(read("attn_config: {attn_type: multiquery_attention}")) == 1);
  CHECK(read("attn_config: {rope: true}").attn.rope == mpt::rope_config{});
  CHECK(read("attn_config: {rope: true, rope_dail_config: {type: xpos}}").attn.rope ==
        mpt::rope_config{.xpos_scale_base = 512});
  CHECK(read("attn_config: {rope: true, rope_impl: hf, rope_hf_config: {type: linear, factor: 2}}")
            .attn.rope->scaling == mpt::rope_scaling(mpt::linear_rope{2}));
}

TEST_CASE("block_overrides: give one description for each layer") {
  auto const model = read(R"(
n_layers: 6
attn_config: {alibi: true, sliding_window_size: 64}
block_overrides:
  order:
  - {name: default}
  - order: [{name: far}, {name: default, repeat: 2}]
  - {name: far, repeat: 2}
  overrides:
    far: {attn_config: {sliding_window_size: -1, nope: true, attn_temperature_tuning: {attn_scale: 0.5}}}
)");
  REQUIRE(model.layers.size() == 6);
  std::string kinds;
  for (std::int64_t i = 0; i < 6; ++i) {
    auto const attn = mpt::attention_of_layer(model, i);
    bool const far = attn.sliding_window_size == -1;
    kinds += far ? 'f' : 'd';
    CHECK(attn.alibi == !far);
    CHECK(attn.temperature == mpt::temperature_config{8192, far ? 0.5 : 0.0});
    CHECK((far || attn.sliding_window_size == 64));
  }
  CHECK(kinds == "dfddff");
}

TEST_CASE(
    "block_overrides: reuse_kv_layer_idx counts back to an earlier layer, as in LLM Foundry") {
  auto const model = read(R"(
n_layers: 6
block_overrides:
  repeat: 2
  order: [{name: default}, {name: near, repeat: 2}]
  overrides:
    near: {attn_config: {reuse_kv_layer_idx: -1}}
)");
  CHECK(mpt::key_source(model, 2) == 0);
  CHECK(mpt::key_source(model, 3) == 3);
  CHECK(mpt::key_source(model, 5) == 3);
  // kv_dim equal to d_model changes nothing
  auto const equal_width =
      read("{d_model: 64, n_heads: 4, attn_config: {fused_qkv: false, kv_dim: 64}}");
  CHECK(equal_width == read("{d_model: 64, n_heads: 4, attn_config: {fused_qkv: false}}"));
}

TEST_CASE("model: each invalid setting gives one message") {
  for (auto const& [text, message] : test::refused_settings("model"))
    CHECK(problem(text) == message);
}

}  // namespace read_model_test
