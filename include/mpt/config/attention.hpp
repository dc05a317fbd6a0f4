// attention_config: LLM Foundry's `attn_config`, and what `block_overrides` changes of it by layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <mpt/config/norm_kind.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// `rope_hf_config.type`: how frequencies are stretched beyond the length they were trained on.
/// `dynamic` changes them only beyond max_seq_len, which no sequence here exceeds.
enum class rope_scaling { none, linear, dynamic, llama3 };

/// Rotary positions. rope_impl dail (type original) and hf (type no_scaling) are the same
/// arithmetic; type xpos is dail's alone.
struct rope_config {
  double theta = 10000;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1;            ///< linear, llama3: positions are divided by it
  double low_freq_factor = 1;   ///< llama3: wavelengths above original / low are divided,
  double high_freq_factor = 4;  ///< those below original / high are not, smoothly in between
  std::int64_t original_max_position_embeddings = 8192;  ///< llama3: positions trained on
  /// xpos (of rope_impl dail): scores fade with the distance, the sooner the smaller this is
  std::optional<double> xpos_scale_base = std::nullopt;

  friend bool operator==(rope_config const&, rope_config const&) = default;
};

/// `attn_temperature_tuning`: q times 1 + attn_scale ln(floor((p + 1) / floor_scale) + 1).
struct temperature_config {
  double floor_scale = 8192;
  double attn_scale = 0;  ///< 0: off

  friend bool operator==(temperature_config const&, temperature_config const&) = default;
};

/// `attn_config`.
struct attention_config {
  std::optional<std::int64_t> kv_n_heads;  ///< none: n_heads (multihead_attention); 1: multiquery
  double attn_pdrop = 0;                   ///< dropout on the probabilities
  std::optional<double> clip_qkv;          ///< clamp to [-c, c] after the projection
  bool fused_qkv = true;                   ///< one Wqkv; else Wq, Wk, Wv
  bool qk_ln = false;                      ///< norm of q and k over the full width, eps 1e-5
  bool qk_gn = false;                      ///< norm of q and k over each head, eps 1e-5
  norm_kind norm_type = norm_kind::low_precision_layernorm;  ///< of q and k
  std::optional<double> softmax_scale;                       ///< none: 1/sqrt(d_model/n_heads)
  std::optional<double> attn_logit_softcapping;              ///< scores become c tanh(s / c)
  std::int64_t sliding_window_size = -1;  ///< keys before its own that a token sees; -1: all
  bool attn_uses_sequence_id = false;     ///< packed texts do not see each other
  temperature_config temperature;
  std::optional<rope_config> rope;  ///< rotary positions
  bool alibi = false;
  double alibi_bias_max = 8;

  friend bool operator==(attention_config const&, attention_config const&) = default;
};

/// What a layer does otherwise than attn_config says.
struct layer_override {
  std::optional<std::int64_t> sliding_window_size = std::nullopt;
  std::optional<double> floor_scale = std::nullopt;  ///< of attn_temperature_tuning
  std::optional<double> attn_scale = std::nullopt;   ///< of attn_temperature_tuning
  bool nope = false;                                 ///< neither rope nor ALiBi
  /// Attends to the keys and values of the layer so many before it (negative), and makes none
  std::optional<std::int64_t> reuse_kv_layer_idx = std::nullopt;

  friend bool operator==(layer_override const&, layer_override const&) = default;
};

/// attn_config with a layer's overrides applied.
[[nodiscard]] inline attention_config overridden(attention_config attn,
                                                 layer_override const& layer) {
  attn.sliding_window_size = layer.sliding_window_size.value_or(attn.sliding_window_size);
  attn.temperature.floor_scale = layer.floor_scale.value_or(attn.temperature.floor_scale);
  attn.temperature.attn_scale = layer.attn_scale.value_or(attn.temperature.attn_scale);
  if (layer.nope) {
    attn.rope.reset();
    attn.alibi = false;
  }
  return attn;
}

/// Fails unless it can be built for `n_heads` heads of `head_dim` elements.
inline void check_attention(attention_config const& attn, std::int64_t n_heads,
                            std::int64_t head_dim, std::string_view where) {
  using parallel::require;
  require(attn.attn_pdrop >= 0 && attn.attn_pdrop < 1, where,
          "attn_config.attn_pdrop is a dropout probability from 0 to below 1, found ",
          attn.attn_pdrop);
  if (attn.kv_n_heads)
    require(*attn.kv_n_heads >= 1 && *attn.kv_n_heads <= n_heads && n_heads % *attn.kv_n_heads == 0,
            where, "attn_config.kv_n_heads must be a number of key heads that divides n_heads ",
            n_heads, ", found ", *attn.kv_n_heads);
  if (attn.clip_qkv)
    require(*attn.clip_qkv > 0, where,
            "attn_config.clip_qkv must be above 0, or null for none, found ", *attn.clip_qkv);
  require(!(attn.qk_ln && attn.qk_gn), where,
          "attn_config.qk_ln and attn_config.qk_gn cannot both be true; choose the norm over the "
          "full width (qk_ln) or over each head (qk_gn)");
  if (attn.attn_logit_softcapping)
    require(*attn.attn_logit_softcapping > 0, where,
            "attn_config.attn_logit_softcapping must be above 0, or null for none, found ",
            *attn.attn_logit_softcapping);
  require(attn.sliding_window_size >= -1, where,
          "attn_config.sliding_window_size must be a number of tokens, or -1 for all, found ",
          attn.sliding_window_size);
  require(attn.temperature.floor_scale > 0, where,
          "attn_config.attn_temperature_tuning.floor_scale must be above 0, found ",
          attn.temperature.floor_scale);
  require(attn.alibi_bias_max > 0, where, "attn_config.alibi_bias_max must be above 0, found ",
          attn.alibi_bias_max);
  if (!attn.rope) return;
  auto const& rope = *attn.rope;
  require(head_dim % 2 == 0, where,
          "attn_config.rope turns elements in pairs, but d_model / n_heads is ", head_dim,
          ", which is odd");
  require(rope.theta > 0, where, "attn_config.rope_theta must be above 0, found ", rope.theta);
  require(rope.factor >= 1, where, "attn_config.rope_hf_config.factor must be at least 1, found ",
          rope.factor);
  require(rope.low_freq_factor > 0 && rope.low_freq_factor < rope.high_freq_factor, where,
          "attn_config.rope_hf_config.low_freq_factor must be above 0 and below high_freq_factor ",
          rope.high_freq_factor, ", found ", rope.low_freq_factor);
  if (rope.xpos_scale_base)
    require(*rope.xpos_scale_base > 0, where,
            "attn_config.rope_dail_config.xpos_scale_base must be above 0, found ",
            *rope.xpos_scale_base);
  require(rope.original_max_position_embeddings > 0, where,
          "attn_config.rope_hf_config.original_max_position_embeddings must be above 0, found ",
          rope.original_max_position_embeddings);
}

}  // namespace mpt
