// The configuration document of a program: a YAML file, with `key.sub=value` overrides from the
// command line applied and `${...}` replaced.
//
// Overrides come before interpolation, so `variables.max_seq_len=128` changes every place that
// refers to it, as under OmegaConf; a variable that nothing refers to is refused there. Values of
// overrides are YAML (scalars, [lists], {mappings}); mappings merge into an existing mapping,
// everything else replaces the value.
//
// YAML text to config_node, through yaml-cpp's events.
//
// The parser uses events rather than YAML::Load, because events carry a mark for every value, show
// aliases as aliases (a few lines of them can stand for 10^9 values: each copy counts against a
// limit), and show a key that is written twice. Tags (nothing is constructed from data), keys that
// are not scalars, and a second document are refused. Merge keys (`<<: *defaults`) are accepted.
// Cost: one pass.
//
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
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <mpt/yaml/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The location of values that the command line sets.
inline constexpr std::string_view command_line = "command line";

/// Merges one `key.sub=value` into the tree; list items are named by number
/// (`eval_loader.0.label=x`). A name in `mirrors` may hold dots
/// (`mirrors.mistralai/Mistral-7B-v0.1=PATH`).
void apply_override(config_node& root, std::string_view text, config_limits const& limits = {});

/// Parses `text` (named `source` in messages), applies the overrides, replaces `${...}`. The result
/// is a mapping.
[[nodiscard]] config_node make_document(std::string_view text, std::string const& source,
                                        std::span<std::string const> overrides = {},
                                        config_limits const& limits = {});

/// Changes a document before it is read.
using document_change = std::function<void(config_node& document)>;

/// Reads a YAML file and makes the document; locations name the file without its folder.
[[nodiscard]] config_node load_document(std::filesystem::path const& path,
                                        std::span<std::string const> overrides = {},
                                        config_limits const& limits = {});

/// Parses one YAML document; `source` names it in locations ("mpt-125m.yaml:17:12"). Empty text is
/// a null value. Throws `parallel::error` for text that is not YAML or is over the limits.
[[nodiscard]] config_node parse_yaml(std::string_view text, std::string const& source,
                                     config_limits const& limits = {});

/// Top-level mappings whose only purpose is to be referred to.
inline constexpr std::array<std::string_view, 2> variable_mappings{"variables", "dataset"};

/// The tree with every `${...}` replaced; members of variable_mappings that nothing refers to are
/// marked. Throws `parallel::error` as described above.
[[nodiscard]] config_node resolve_references(config_node const& root,
                                             config_limits const& limits = {});

}  // namespace mpt
