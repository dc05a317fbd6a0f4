// Tests of reading a model: defaults, every key, and what is refused.
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/read_model.hpp>
#include <mpt/yaml/yaml.hpp>
#include <parallel/support/files.hpp>

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
  std::vector<std::pair<std::string, std::string>> const cases{
      {"d_model: 770", "f.yaml:1:1: model.d_model 770 must be divisible by n_heads 16"},
      {"n_heads: 0", "f.yaml:1:10: model.n_heads: must be above 0, found 0"},
      {"n_layers: -1", "f.yaml:1:1: model.n_layers must be from 1 to 4096, found -1"},
      {"vocab_size: 1e12",
       "f.yaml:1:1: model.vocab_size must be from 1 to 16777216, found 1000000000000"},
      {"expansion_ratio: 0.3",
       "f.yaml:1:1: model.expansion_ratio 0.3 times d_model 2048 must be a whole number from 1 to "
       "1048576"},
      {"resid_pdrop: 1.5",
       "f.yaml:1:1: model.resid_pdrop is a dropout probability from 0 to below 1, found 1.5"},
      {"norm_type: batchnorm",
       "f.yaml:1:12: model.norm_type: 'batchnorm' is not a norm; there are layernorm, "
       "low_precision_layernorm, rmsnorm, low_precision_rmsnorm, triton_rmsnorm"},
      {"logit_scale: big",
       "f.yaml:1:14: model.logit_scale: expected a number or 'inv_sqrt_d_model', found 'big'"},
      {"final_logit_softcapping: 0",
       "f.yaml:1:1: model.final_logit_softcapping must be above 0, or null for none, found 0"},
      {"embedding_fraction: 0",
       "f.yaml:1:1: model.embedding_fraction must be above 0 and at most 1, found 0"},
      {"head_dim: 0", "f.yaml:1:11: model.head_dim: must be above 0, found 0"},
      {"family: opt", "f.yaml:1:9: model.family: 'opt' is no family of models that is known"},
      {"attn_config: {rope: true, rotary_dim: 3}",
       "f.yaml:1:1: model.attn_config.rotary_dim must be an even number from 2 to the width of a "
       "head, 128, found 3"},
      {"attn_config: {rope: true, rope_dail_config: {type: xpos, xpos_scale_base: -1}}",
       "f.yaml:1:1: model.attn_config.rope_dail_config.xpos_scale_base must be above 0, found -1"},
      {"{max_seq_len: 65536, attn_config: {rope: true, rope_dail_config: {type: xpos}}}",
       "f.yaml:1:1: model.attn_config.rope_dail_config.xpos_scale_base 512 lets queries of "
       "sequences of 65536 grow beyond float32; it must be at least 642"},
      {"attn_config: {rope: true, rope_impl: hf, rope_hf_config: {type: llama3, factor: 8}}",
       "f.yaml:1:58: model.attn_config.rope_hf_config.low_freq_factor: missing; it is required"},
      {"{d_model: 48, attn_config: {rope: true}}",
       "f.yaml:1:1: model.attn_config.rope turns elements in pairs, but the width of a head is 3, "
       "which is odd"},
      {"attn_config: {attn_type: grouped_query_attention}",
       "f.yaml:1:14: model.attn_config.kv_n_heads: missing; grouped_query_attention needs it"},
      {"attn_config: {attn_type: grouped_query_attention, kv_n_heads: 3}",
       "f.yaml:1:1: model.attn_config.kv_n_heads must be a number of key heads that divides "
       "n_heads "
       "16, found 3"},
      {"attn_config: {kv_n_heads: 4}",
       "f.yaml:1:27: model.attn_config.kv_n_heads: belongs to attn_type "
       "grouped_query_attention"},
      {"attn_config: {qk_ln: true, qk_gn: true}",
       "f.yaml:1:1: model.attn_config.qk_ln and attn_config.qk_gn cannot both be true; choose the "
       "norm over the full width (qk_ln) or over each head (qk_gn)"},
      {"attn_config: {attn_logit_softcapping: -2}",
       "f.yaml:1:1: model.attn_config.attn_logit_softcapping must be above 0, or null for none, "
       "found -2"},
      {"attn_config: {sliding_window_size: -2}",
       "f.yaml:1:1: model.attn_config.sliding_window_size must be a number of tokens, or -1 for "
       "all, found -2"},
      {"attn_config: {nope: true}",
       "f.yaml:1:21: model.attn_config.nope: 'true' is not yet supported; it is set for single "
       "layers, by block_overrides"},
      {"{n_layers: 2, block_overrides: {order: [{name: a}], overrides: {b: {}}}}",
       "f.yaml:1:48: model.block_overrides.order.0.name: 'a' is neither 'default' nor a name in "
       "block_overrides.overrides"},
      {"{n_layers: 2, block_overrides: {order: [{name: b, repeat: 2}, {name: default}], "
       "overrides: {b: {}}}}",
       "f.yaml:1:40: model.block_overrides.order: describes more layers than n_layers = 2"},
      {"{n_layers: 2, block_overrides: {order: [{name: b}], overrides: {b: {attn_config: {nope: "
       "true}}}, repeat: 2}}",
       "f.yaml:1:1: model.block_overrides: nope switches rope or ALiBi off in a layer; it cannot "
       "be "
       "used with learned_pos_emb"},
      {"{n_layers: 2, block_overrides: {order: [{name: b}, {name: default}], overrides: {b: "
       "{attn_config: {reuse_kv_layer_idx: -1}}}}}",
       "f.yaml:1:1: model.block_overrides: reuse_kv_layer_idx -1 of layer 0 leads before the first "
       "layer"},
      {"{n_layers: 2, block_overrides: {order: [{name: default}, {name: b}], overrides: {b: "
       "{attn_config: {reuse_kv_layer_idx: 0}}}}}",
       "f.yaml:1:1: model.block_overrides: reuse_kv_layer_idx counts layers backwards from the one "
       "that has it (-1 is the layer before), found 0"},
      {"{n_layers: 1, block_overrides: {order: [{name: b}], overrides: {b: {attn_config: "
       "{reuse_kv_x_layer_idx: -1}}}}}",
       "f.yaml:1:105: model.block_overrides.overrides.b.attn_config.reuse_kv_x_layer_idx: '-1' is "
       "not yet supported; it projects an earlier layer's input by weights of this layer; "
       "reuse_kv_layer_idx is no replacement, because it takes the earlier layer's keys and values "
       "unchanged"},
      {"attn_config: {fused_qkv: false, kv_dim: 64}",
       "f.yaml:1:41: model.attn_config.kv_dim: is the width of the input of keys and values in "
       "cross-attention, which this model does not have; leave it blank"},
      {"attn_config: {kv_dim: 2048}",
       "f.yaml:1:23: model.attn_config.kv_dim: needs fused_qkv: false"},
      {"attn_config: {clip_qkv: -1}",
       "f.yaml:1:1: model.attn_config.clip_qkv must be above 0, or null for none, found -1"},
      {"attn_config: {alibis: true}",
       "f.yaml:1:15: model.attn_config.alibis: unknown key; did you mean "
       "'model.attn_config.alibi'?"},
      {"ffn_config: {ffn_type: mb_moe}",
       "f.yaml:1:24: model.ffn_config.ffn_type: 'mb_moe' is not supported; use mptmlp or mptglu"},
      {"ffn_config: {ffn_act_fn: {name: selu}}",
       "f.yaml:1:33: model.ffn_config.ffn_act_fn.name: 'selu' is not an activation here; there are "
       "gelu, quick_gelu, silu, relu"},
      {"ffn_config: {ffn_act_fn: {name: silu, approximate: tanh}}",
       "f.yaml:1:52: model.ffn_config.ffn_act_fn.approximate: belongs to gelu"},
      {"fc_type: te", "f.yaml:1:10: model.fc_type: 'te' is not yet supported; use torch"},
      {"init_config: {name: magic_}",
       "f.yaml:1:21: model.init_config.name: 'magic_' is not an initialisation; there are "
       "default_, "
       "baseline_, kaiming_uniform_, kaiming_normal_, neox_init_, small_init_, xavier_uniform_, "
       "xavier_normal_"},
      {"init_config: {name: baseline_}",
       "f.yaml:1:14: model.init_config.init_std: baseline_ needs it"},
      {"init_config: {name: xavier_normal_}",
       "f.yaml:1:14: model.init_config.init_gain: xavier needs a gain above 0 (1 is "
       "usual); "
       "0 would make every weight 0"},
      {"init_config: {init_div_is_residual: maybe}",
       "f.yaml:1:37: model.init_config.init_div_is_residual: expected true, false or a number "
       "above "
       "0, found 'maybe'"},
      {"init_config: {emb_init_std: 0.1, emb_init_uniform_lim: 1}",
       "f.yaml:1:56: model.init_config.emb_init_uniform_lim: give emb_init_std or "
       "emb_init_uniform_lim, not both"},
      {"init_config: {emb_init_uniform_lim: [1, 2, 3]}",
       "f.yaml:1:37: model.init_config.emb_init_uniform_lim: expected a number or a list of two, "
       "found a list of 3"}};
  for (auto const& [text, message] : cases) CHECK(problem(text) == message);
}

}  // namespace read_model_test
