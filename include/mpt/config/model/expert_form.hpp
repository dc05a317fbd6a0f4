// The fields of experts that families of transformers have in common, and the names of their
// tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpt/config/model/llama_form.hpp>

namespace mpt {

/// How a family spells the fields of its experts, with the values that transformers takes for those
/// that are absent.
struct expert_keys {
  std::string_view count = "num_experts";
  std::string_view other_count = "";  ///< another spelling of `count`, of some versions
  std::string_view hidden = "moe_intermediate_size";  ///< "": intermediate_size
  std::int64_t default_top_k = 1;
  double default_loss_weight = 0.001;
  bool always_norms = false;  ///< weights are always divided by their sum; else norm_topk_prob says
};

/// The experts of all blocks, gated and without biases. `output_router_logits` turns on the
/// balancing loss, with means over all layers of the microbatch, times `router_aux_loss_coef`.
void describe_experts(family_form& form, model_config& model, expert_keys const& keys);

/// The blocks without experts: those of `mlp_only_layers`, and those whose number, from 1 on,
/// `decoder_sparse_step` does not divide (Qwen).
void describe_dense_layers(family_form& form, model_config& model);

/// Fails for a width of heads that transformers' class does not take from the file.
void require_default_head_dim(family_form& form, model_config const& model);

/// Layers of experts under the names of OLMoE and Qwen.
inline constexpr std::array<stored_layer, 4> expert_layers{
    {{"transformer.blocks.*.ffn.router.layer", {"model.layers.*.mlp.gate"}},
     {"transformer.blocks.*.ffn.experts.mlp.w1",
      {"model.layers.*.mlp.experts.*.gate_proj.weight"},
      tensor_form::experts},
     {"transformer.blocks.*.ffn.experts.mlp.v1",
      {"model.layers.*.mlp.experts.*.up_proj.weight"},
      tensor_form::experts},
     {"transformer.blocks.*.ffn.experts.mlp.w2",
      {"model.layers.*.mlp.experts.*.down_proj.weight"},
      tensor_form::transposed_experts}}};

}  // namespace mpt
