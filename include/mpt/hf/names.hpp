// Names of tensors that another program writes differently.
#pragma once

#include <string>

namespace mpt::hf {

/// What LLM Foundry calls a parameter when fuse_norm_attn_norm is set: "...blocks.3.norm_1.weight"
/// is "...blocks.3.norm_attn_norm.norm_1.weight", likewise all of attn and norm_2. Other names
/// stay.
[[nodiscard]] std::string fused_name(std::string name);

/// A parameter's name without what PyTorch's wrappers put into it: torch.compile `_orig_mod.`, FSDP
/// and checkpointing of activations their own, anywhere; DistributedDataParallel `module.` in
/// front, and Composer `model.` before the model's own names.
[[nodiscard]] std::string unwrapped_name(std::string name);

}  // namespace mpt::hf
