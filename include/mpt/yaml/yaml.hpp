// YAML text to config_node, through yaml-cpp's events.
//
// The parser uses events rather than YAML::Load, because events carry a mark for every value, show
// aliases as aliases (a few lines of them can stand for 10^9 values: each copy counts against a
// limit), and show a key that is written twice. Tags (nothing is constructed from data), keys that
// are not scalars, and a second document are refused. Merge keys (`<<: *defaults`) are accepted.
// Cost: one pass.
#pragma once

#include <string>
#include <string_view>

#include <yaml-cpp/eventhandler.h>

#include <mpt/yaml/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Parses one YAML document; `source` names it in locations ("mpt-125m.yaml:17:12"). Empty text is
/// a null value. Throws `parallel::error` for text that is not YAML or is over the limits.
[[nodiscard]] config_node parse_yaml(std::string_view text, std::string const& source,
                                     config_limits const& limits = {});

}  // namespace mpt
