#include <string>

#include <doctest/doctest.h>

#include <mpt/hf/names.hpp>

namespace hf_names_test {

TEST_CASE("norms and attention of a block move into norm_attn_norm, nothing else") {
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

}  // namespace hf_names_test
