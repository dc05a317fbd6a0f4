// Names of tensors that another program writes differently.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace mpt::hf {

/// What LLM Foundry calls a parameter when fuse_norm_attn_norm is set: "...blocks.3.norm_1.weight"
/// is "...blocks.3.norm_attn_norm.norm_1.weight", likewise all of attn and norm_2. Other names
/// stay.
[[nodiscard]] inline std::string fused_name(std::string name) {
  constexpr std::string_view blocks = "transformer.blocks.";
  if (!name.starts_with(blocks)) return name;
  auto const part = name.find('.', blocks.size()) + 1;
  for (std::string_view const moved :
       std::array<std::string_view, 3>{"norm_1.", "attn.", "norm_2."})
    if (std::string_view(name).substr(part).starts_with(moved))
      return name.insert(part, "norm_attn_norm.");
  return name;
}

}  // namespace mpt::hf
