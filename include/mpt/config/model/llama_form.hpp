// The form that Llama and the families that followed it have in common: RMSNorm, a gated
// feed-forward layer, rotary positions, grouped keys, no biases but those that a family names; and
// their tensors' names.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <mpt/config/model/family.hpp>

namespace mpt {

/// The values that transformers takes for fields that are absent.
struct llama_defaults {
  std::int64_t key_heads = 0;  ///< 0: as many as query heads
  std::int64_t max_positions = 2048;
  double norm_eps = 1e-6;
  rotary_keys rotary = {};
  bool has_experts = false;
};

/// The fields that all of them have.
void describe_llama(family_form& form, model_config& model, llama_defaults const& defaults = {});

/// A window of attention in all layers, `use_sliding_window` with `sliding_window` (Qwen2, Qwen3);
/// a window in some of the layers is refused.
void describe_optional_window(family_form& form, model_config& model);

/// `sliding_window`: the tokens that a token sees, itself included; none where it is null, and
/// transformers' default where it is absent.
[[nodiscard]] std::optional<std::int64_t> read_window(family_form& form);

/// Whether the `layers` layers have a window, as `layer_types` says; none where the file has no
/// such list. Throws for a list of another length, and when only some of them have one.
[[nodiscard]] std::optional<bool> read_layer_types(family_form& form, std::int64_t layers);

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

/// Positions' frequencies, which earlier versions of transformers stored.
inline constexpr std::array<std::string_view, 1> llama_buffers{".rotary_emb.inv_freq"};

/// The layers that PEFT adapts where its file names none.
inline constexpr std::array<std::string_view, 2> llama_default_targets{"q_proj", "v_proj"};

/// The architecture of llama.cpp that holds Llama and Mistral.
inline constexpr gguf_form llama_gguf{.architecture = "llama",
                                      .attention_biases = gguf_biases::optional,
                                      .interleaves_rotation = true,
                                      .has_head_width = true,
                                      .has_frequency_factors = true};

/// A family in Llama's form, with what sets it apart.
[[nodiscard]] constexpr model_family llama_family(std::string_view model_type,
                                                  std::string_view architecture,
                                                  void (*describe)(family_form&, model_config&),
                                                  gguf_form gguf) {
  return {.model_type = model_type,
          .architecture = architecture,
          .describe = describe,
          .layers = llama_layers,
          .base_prefix = "model.",
          .buffers = llama_buffers,
          .default_targets = llama_default_targets,
          .gguf = gguf};
}

}  // namespace mpt
