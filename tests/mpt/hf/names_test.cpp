#include <string>

#include <doctest/doctest.h>

#include <mpt/hf/names.hpp>

namespace hf_names_test {

TEST_CASE("names of tensors: only norms and attention of a block get norm_attn_norm") {
  using mpt::hf::fused_name;
  std::string const block = "transformer.blocks.12.";
  for (std::string const part :
       {"norm_1.weight", "attn.Wqkv.bias", "attn.q_ln.weight", "norm_2.bias"})
    CHECK(fused_name(block + part) == block + "norm_attn_norm." + part);
  for (std::string const name :
       {"transformer.blocks.1.ffn.up_proj.weight", "transformer.norm_f.weight",
        "transformer.wte.weight", "lm_head.weight", "transformer.blocks."})
    CHECK(fused_name(name) == name);
}

TEST_CASE("names of tensors: the parts that PyTorch's and Composer's wrappers insert are removed") {
  using mpt::hf::unwrapped_name;
  std::string const name = "transformer.blocks.0.norm_1.weight";
  for (std::string const wrapped :
       {"transformer.blocks.0.norm_1.weight", "_orig_mod.transformer.blocks.0.norm_1.weight",
        "module.transformer.blocks.0.norm_1.weight",
        "module._orig_mod.transformer.blocks.0.norm_1.weight",
        "_orig_mod.module.transformer.blocks.0.norm_1.weight",
        "module.model.transformer.blocks.0.norm_1.weight",
        "model._orig_mod.transformer.blocks.0._orig_mod.norm_1.weight",
        "_fsdp_wrapped_module.transformer.blocks.0._fsdp_wrapped_module._checkpoint_wrapped_module."
        "norm_1.weight"})
    CHECK(unwrapped_name(wrapped) == name);
  for (std::string const other : {"lm_head.weight", "transformer.my_orig_mod.weight",
                                  "transformer.module.weight", "model.layers.0.weight", ""})
    CHECK(unwrapped_name(other) == other);
}

}  // namespace hf_names_test
