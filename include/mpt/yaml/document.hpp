// The configuration document of a program: a YAML file, with `key.sub=value` overrides from the
// command line applied and `${...}` replaced.
//
// Overrides come before interpolation, so `variables.max_seq_len=128` changes every place that
// refers to it, as under OmegaConf; a variable that nothing refers to is refused there. Values of
// overrides are YAML (scalars, [lists], {mappings}); mappings merge into an existing mapping,
// everything else replaces the value.
#pragma once

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
/// (`eval_loader.0.label=x`).
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

}  // namespace mpt
