// The form that Llama and the families that followed it have in common: a norm in front of
// attention and of the feed-forward layer, rotary positions, grouped keys, no biases but those that
// a family names; and their tensors' names. Unless a family says otherwise norms are RMSNorm, and
// the feed-forward layer is gated.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <mpt/config/model/family.hpp>

namespace mpt {

/// The values that transformers takes for fields that are absent, and the names of fields that
/// differ from family to family.
struct llama_defaults {
  std::int64_t key_heads = 0;  ///< 0: as many as query heads
  std::int64_t max_positions = 2048;
  double eps = 1e-6;
  bool ties_embeddings = false;
  double deviation = 0.02;  ///< initializer_range
  std::string_view activation = "silu";
  std::string_view eps_key = "rms_norm_eps";
  std::string_view activation_key = "hidden_act";
  rotary_keys rotary = {};
  bool has_experts = false;
};

/// The fields that all of them have.
void describe_llama(family_form& form, model_config& model, llama_defaults const& defaults = {});

/// Norms of LayerNorm, with biases.
void set_layer_norms(model_config& model);

/// A window of attention in all layers or none, `sliding_window`, which is none where it is absent.
void describe_window(family_form& form, model_config& model);

/// A window of attention where `use_sliding_window` says so, of `usual` tokens where
/// `sliding_window` is absent: in the layers that `layer_types` names, or else in those of
/// `counted`.
void describe_optional_window(family_form& form, model_config& model,
                              std::vector<bool> const& counted, std::optional<std::int64_t> usual);

/// The same for the layers from `max_window_layers` on (Qwen2, Qwen3).
void describe_last_windows(family_form& form, model_config& model);

/// A window in the layers that `layer_types` names, or else in those of `usual`; of `size` tokens
/// where `sliding_window` is absent.
void describe_layer_windows(family_form& form, model_config& model, std::vector<bool> const& usual,
                            std::int64_t size);

/// `sliding_window`: the tokens that a token sees, itself included; none where it is null, and
/// `usual`, transformers' default, where it is absent.
[[nodiscard]] std::optional<std::int64_t> read_window(family_form& form,
                                                      std::optional<std::int64_t> usual);

/// The layers that have a window, as `layer_types` says; none where the file has no such list.
/// Throws for a list of another length than `layers`.
[[nodiscard]] std::optional<std::vector<bool>> read_layer_types(family_form& form,
                                                                std::int64_t layers);

/// Gives some layers a window of `size` tokens, and the others none.
void set_windows(model_config& model, std::vector<bool> const& has_window, std::int64_t size);

/// Writes `sliding_window`, null without windows, and `layer_types` where some layers have one.
/// Gives the layers that have one.
std::vector<bool> write_windows(family_form& form, model_config const& model);

/// The names of a Llama's layers, here and in its files.
inline constexpr std::array<stored_layer, 15> llama_layers{
    {{"transformer.wte", {"model.embed_tokens"}},
     {"transformer.blocks.*.norm_1", {"model.layers.*.input_layernorm"}},
     {"transformer.blocks.*.attn.Wqkv",
      {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.k_proj",
       "model.layers.*.self_attn.v_proj"}},
     {"transformer.blocks.*.attn.Wq", {"model.layers.*.self_attn.q_proj"}},
     {"transformer.blocks.*.attn.Wk", {"model.layers.*.self_attn.k_proj"}},
     {"transformer.blocks.*.attn.Wv", {"model.layers.*.self_attn.v_proj"}},
     {"transformer.blocks.*.attn.q_ln", {"model.layers.*.self_attn.q_norm"}},
     {"transformer.blocks.*.attn.k_ln", {"model.layers.*.self_attn.k_norm"}},
     {"transformer.blocks.*.attn.out_proj", {"model.layers.*.self_attn.o_proj"}},
     {"transformer.blocks.*.norm_2", {"model.layers.*.post_attention_layernorm"}},
     {"transformer.blocks.*.ffn.gate_proj", {"model.layers.*.mlp.gate_proj"}},
     {"transformer.blocks.*.ffn.up_proj", {"model.layers.*.mlp.up_proj"}},
     {"transformer.blocks.*.ffn.down_proj", {"model.layers.*.mlp.down_proj"}},
     {"transformer.norm_f", {"model.norm"}},
     {"lm_head", {"lm_head"}}}};

/// The names of a Llama's layers with others in place of some or in addition.
template <std::size_t N>
[[nodiscard]] constexpr auto llama_layers_but(std::array<stored_layer, N> const& changed) {
  std::array<stored_layer, N + llama_layers.size()> layers;
  std::ranges::copy(changed, layers.begin());  // the first entry of a layer counts
  std::ranges::copy(llama_layers, layers.begin() + N);
  return layers;
}

/// Positions' frequencies, which earlier versions of transformers stored.
inline constexpr std::array<std::string_view, 1> llama_buffers{".rotary_emb.inv_freq"};

/// The layers that PEFT adapts where its file names none.
inline constexpr std::array<std::string_view, 2> llama_default_targets{"q_proj", "v_proj"};

/// Takes norms of queries and keys from a model whose architecture in llama.cpp has them with the
/// other norms' epsilon.
void remove_query_key_norms(model_config& model);

/// The architecture of llama.cpp that holds Llama and Mistral.
inline constexpr gguf_form llama_gguf{.architecture = "llama",
                                      .attention_biases = gguf_biases::optional,
                                      .interleaves_rotation = true,
                                      .has_head_width = true,
                                      .has_frequency_factors = true};

/// That of Mixtral.
inline constexpr gguf_form mixtral_gguf = [] {
  gguf_form form = llama_gguf;
  form.experts = gguf_experts::normalised;
  return form;
}();

/// A family in Llama's form, with what sets it apart.
[[nodiscard]] constexpr model_family llama_family(
    std::string_view model_type, std::string_view architecture,
    void (*describe)(family_form&, model_config&), gguf_form gguf, rotary_keys const& rotary = {},
    std::span<stored_layer const> layers = llama_layers,
    std::span<std::string_view const> default_targets = llama_default_targets) {
  return {.model_type = model_type,
          .architecture = architecture,
          .describe = describe,
          .layers = layers,
          .base_prefix = "model.",
          .buffers = llama_buffers,
          .default_targets = default_targets,
          .rotary = rotary,
          .gguf = gguf};
}

}  // namespace mpt
