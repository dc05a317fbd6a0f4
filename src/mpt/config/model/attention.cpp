#include <mpt/config/model/attention.hpp>

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include <parallel/core/error.hpp>

namespace mpt {

attention_config with_overrides(attention_config attn, layer_override const& layer) {
  attn.sliding_window_size = layer.sliding_window_size.value_or(attn.sliding_window_size);
  attn.temperature.floor_scale = layer.floor_scale.value_or(attn.temperature.floor_scale);
  attn.temperature.attn_scale = layer.attn_scale.value_or(attn.temperature.attn_scale);
  if (layer.rope_theta && attn.rope) {
    attn.rope->theta = *layer.rope_theta;
    attn.rope->scaling = unscaled_rope{};
  }
  if (layer.nope) {
    attn.rope.reset();
    attn.alibi = false;
  }
  return attn;
}

double softmax_scale(attention_config const& attn, std::int64_t head_dim) {
  auto const* const yarn = attn.rope ? std::get_if<yarn_rope>(&attn.rope->scaling) : nullptr;
  double const growth = yarn != nullptr ? yarn->attention_factor : 1;
  return growth * growth *
         attn.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
}

void check_attention(attention_config const& attn, std::int64_t n_heads, std::int64_t head_dim,
                     std::string_view prefix) {
  using parallel::require;
  require(attn.attn_pdrop >= 0 && attn.attn_pdrop < 1, prefix,
          "attn_config.attn_pdrop is a dropout probability from 0 to below 1, found ",
          attn.attn_pdrop);
  if (attn.kv_n_heads)
    require(*attn.kv_n_heads >= 1 && *attn.kv_n_heads <= n_heads && n_heads % *attn.kv_n_heads == 0,
            prefix, "attn_config.kv_n_heads must be a number of key heads that divides n_heads ",
            n_heads, ", found ", *attn.kv_n_heads);
  if (attn.clip_qkv)
    require(*attn.clip_qkv > 0, prefix,
            "attn_config.clip_qkv must be above 0, or null for none, found ", *attn.clip_qkv);
  require(!(attn.qk_ln && attn.qk_gn), prefix,
          "attn_config.qk_ln and attn_config.qk_gn cannot both be true; choose the norm over the "
          "full width (qk_ln) or over each head (qk_gn)");
  if (attn.attn_logit_softcapping)
    require(*attn.attn_logit_softcapping > 0, prefix,
            "attn_config.attn_logit_softcapping must be above 0, or null for none, found ",
            *attn.attn_logit_softcapping);
  require(attn.qk_norm_eps > 0 && attn.qk_norm_eps < 1, prefix,
          "attn_config.qk_norm_eps must be above 0 and below 1, found ", attn.qk_norm_eps);
  require(attn.sliding_window_size >= -1, prefix,
          "attn_config.sliding_window_size must be a number of tokens, or -1 for all, found ",
          attn.sliding_window_size);
  require(attn.temperature.floor_scale > 0, prefix,
          "attn_config.attn_temperature_tuning.floor_scale must be above 0, found ",
          attn.temperature.floor_scale);
  require(attn.alibi_bias_max > 0, prefix, "attn_config.alibi_bias_max must be above 0, found ",
          attn.alibi_bias_max);
  if (!attn.rope) return;
  auto const& rope = *attn.rope;
  require(rope.rotary_dim || head_dim % 2 == 0, prefix,
          "attn_config.rope turns elements in pairs, but the width of a head is ", head_dim,
          ", which is odd");
  if (rope.rotary_dim)
    require(*rope.rotary_dim >= 2 && *rope.rotary_dim <= head_dim && *rope.rotary_dim % 2 == 0,
            prefix, "attn_config.rotary_dim must be an even number from 2 to the width of a head, ",
            head_dim, ", found ", *rope.rotary_dim);
  bool const is_yarn = std::holds_alternative<yarn_rope>(rope.scaling);
  require(!is_yarn || rope.theta > 1, prefix,
          "attn_config.rope_theta must be above 1 with yarn, found ", rope.theta);
  require(!rope.rotary_dim || (!is_yarn && !rope.xpos_scale_base), prefix,
          "attn_config.rotary_dim cannot be used with yarn or xpos, which scale whole heads");
  require(rope.theta > 0, prefix, "attn_config.rope_theta must be above 0, found ", rope.theta);
  if (auto const* const scaling = std::get_if<long_rope>(&rope.scaling))
    for (auto const& [key, factors] : {std::pair("short_factor", &scaling->short_factor),
                                       std::pair("long_factor", &scaling->long_factor)})
      require(std::ssize(*factors) == rope.rotary_dim.value_or(head_dim) / 2, prefix,
              "attn_config.rope_hf_config.", key, " must have a number for each of the ",
              rope.rotary_dim.value_or(head_dim) / 2, " pairs of elements that are turned, found ",
              factors->size());
  check_rope_scaling(
      rope.scaling, [&](bool is_met, std::string_view key, auto const&... explanation) {
        require(is_met, prefix, "attn_config.rope_hf_config.", key, " ", explanation...);
      });
  if (rope.xpos_scale_base)
    require(*rope.xpos_scale_base > 0, prefix,
            "attn_config.rope_dail_config.xpos_scale_base must be above 0, found ",
            *rope.xpos_scale_base);
}

}  // namespace mpt
