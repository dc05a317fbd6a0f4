// attention_config: LLM Foundry's `attn_config`, and the settings that `block_overrides` changes in
// single layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <mpt/config/model/norm_kind.hpp>
#include <mpt/config/model/rope.hpp>

namespace mpt {

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
  bool qk_ln = false;                      ///< norm of q and k over the full width
  bool qk_gn = false;                      ///< norm of q and k over each head
  double qk_norm_eps = 1e-5;               ///< of these norms; LLM Foundry has no key for it
  norm_kind norm_type = norm_kind::low_precision_layernorm;  ///< of q and k
  std::optional<double> softmax_scale;                       ///< none: 1/sqrt(head_dim)
  std::optional<double> attn_logit_softcapping;              ///< scores become c tanh(s / c)
  std::int64_t sliding_window_size = -1;  ///< keys before its own that a token sees; -1: all
  bool attn_uses_sequence_id = false;     ///< packed texts do not see each other
  temperature_config temperature;
  std::optional<rope_config> rope;  ///< rotary positions
  bool alibi = false;
  double alibi_bias_max = 8;

  friend bool operator==(attention_config const&, attention_config const&) = default;
};

/// The settings in which a layer differs from attn_config.
struct layer_override {
  std::optional<std::int64_t> sliding_window_size = std::nullopt;
  std::optional<double> floor_scale = std::nullopt;  ///< of attn_temperature_tuning
  std::optional<double> attn_scale = std::nullopt;   ///< of attn_temperature_tuning
  bool nope = false;                                 ///< neither rope nor ALiBi
  std::optional<double> rope_theta = std::nullopt;   ///< of rope, unscaled in such a layer
  /// Distance (negative) to the earlier layer whose keys and values this layer attends to; such a
  /// layer computes no keys and values itself
  std::optional<std::int64_t> reuse_kv_layer_idx = std::nullopt;

  friend bool operator==(layer_override const&, layer_override const&) = default;
};

/// attn_config with a layer's overrides applied.
[[nodiscard]] attention_config with_overrides(attention_config attn, layer_override const& layer);

/// Scale of the attention scores of heads of `head_dim` elements, in which the factor of YaRN on
/// queries and keys is included.
[[nodiscard]] double softmax_scale(attention_config const& attn, std::int64_t head_dim);

/// Fails unless this attention can be built for `n_heads` heads of `head_dim` elements. `prefix`
/// begins the message.
void check_attention(attention_config const& attn, std::int64_t n_heads, std::int64_t head_dim,
                     std::string_view prefix);

}  // namespace mpt
