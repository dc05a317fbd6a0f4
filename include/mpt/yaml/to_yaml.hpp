// to_yaml: a document as YAML text.
#pragma once

#include <string>

#include <mpt/yaml/node.hpp>

namespace mpt {

/// The text of a mapping, a line for every scalar; lists of scalars are in one line. parse_yaml
/// reads an equal tree from it, whose locations are new.
[[nodiscard]] std::string to_yaml(config_node const& document);

}  // namespace mpt
