// The form that Google's Gemma models have in common: Llama's with embeddings that are scaled by
// the square root of the model's width, norms that multiply by 1 + weight, heads of any width, and
// a gate of GELU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <mpt/config/model/llama_form.hpp>

namespace mpt {

/// The fields that all of them have. Embeddings are tied, and the activation is GELU's tanh
/// approximation, where the file does not say otherwise.
void describe_gemma(family_form& form, model_config& model, llama_defaults defaults);

/// Norms on both sides of attention and of the feed-forward layer, and `query_pre_attn_scalar`, the
/// number whose square root divides scores.
void describe_sandwich(family_form& form, model_config& model);

/// A cap of scores or logits, none where it is null and `usual` where it is absent.
void describe_cap(family_form& form, std::string_view key, std::optional<double>& cap,
                  std::optional<double> usual);

/// For each of `layers` layers whether it is none of each `period`-th.
[[nodiscard]] std::vector<bool> all_but_every(std::int64_t period, std::int64_t layers);

/// The names of the layers of Gemma 2 and 3.
inline constexpr auto gemma_layers = llama_layers_but(std::to_array<stored_layer>(
    {{"transformer.blocks.*.post_norm_1", {"model.layers.*.post_attention_layernorm"}},
     {"transformer.blocks.*.norm_2", {"model.layers.*.pre_feedforward_layernorm"}},
     {"transformer.blocks.*.post_norm_2", {"model.layers.*.post_feedforward_layernorm"}}}));

/// Takes from a model what llama.cpp computes for its family: norms, factors, caps, and windows and
/// bases of rotary positions in the published order of layers.
void remove_gemma_settings(model_config& model);

/// An architecture of llama.cpp that holds one of these families.
[[nodiscard]] constexpr gguf_form gemma_gguf(std::string_view architecture) {
  return {.architecture = architecture,
          .activation = parallel::ops::activation_kind::gelu_tanh,
          .has_head_width = true,
          .adds_one_to_norms = true,
          .remove_held = &remove_gemma_settings};
}

}  // namespace mpt
