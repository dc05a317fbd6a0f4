// The keys of a configuration as they were written, as overrides name them.
#pragma once

#include <nlohmann/json.hpp>

#include <mpt/yaml/node.hpp>

namespace mpt {

/// A JSON object with a text for each value of `document`, by its dotted name. Members of lists
/// are named by number (`eval_loader.0.label`), except in lists of scalars, which are one text.
[[nodiscard]] nlohmann::ordered_json written_keys(config_node const& document);

}  // namespace mpt
