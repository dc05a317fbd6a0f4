// Names and shapes of a model's tensors, and names that another program writes differently.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/hf/export.hpp>

namespace mpt::hf {

/// LLM Foundry's name of a parameter when fuse_norm_attn_norm is set: "...blocks.3.norm_1.weight"
/// becomes "...blocks.3.norm_attn_norm.norm_1.weight", likewise all names of attn and norm_2. Other
/// names do not change.
[[nodiscard]] std::string fused_name(std::string name);

/// A parameter's name without the parts that PyTorch's wrappers insert: `_orig_mod.` of
/// torch.compile and the names of FSDP and activation checkpointing anywhere, `module.` of
/// DistributedDataParallel at the front, and Composer's `model.` before the model's own names.
[[nodiscard]] std::string unwrapped_name(std::string name);

/// Name and extents of every parameter, in the order of the layers. Cost: no memory for elements.
[[nodiscard]] std::vector<named_shape> shapes_of(model_config const& config);

}  // namespace mpt::hf
