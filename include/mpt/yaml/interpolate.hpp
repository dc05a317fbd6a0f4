// `${a.b}` interpolation, as OmegaConf does it for LLM Foundry's YAMLs.
//
// A value that is one reference becomes a copy of the referred value of any type; inside longer
// text the referred scalar is substituted and the result is a string. `\${` is a literal `${`;
// `{run_name}` is not touched. References are absolute and name list items by number (`${a.0}`).
// Cycles, unknown names and growth over the limits (each `${...}` may double a value) are errors
// that name the location. A member of `variables` that nothing refers to is marked as unused.
// Resolvers (`${oc.env:X}`) and nested references are not supported.
#pragma once

#include <array>
#include <string_view>

#include <mpt/yaml/node.hpp>

namespace mpt {

/// Top-level mappings whose only purpose is to be referred to.
inline constexpr std::array<std::string_view, 2> variable_mappings{"variables", "dataset"};

/// The tree with every `${...}` replaced; members of variable_mappings that nothing refers to are
/// marked. Throws `parallel::error` as described above.
[[nodiscard]] config_node resolve_references(config_node const& root,
                                             config_limits const& limits = {});

}  // namespace mpt
