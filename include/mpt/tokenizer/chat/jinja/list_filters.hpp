// list_filters: the filters of jinja2 on sequences and dictionaries.
#pragma once

#include <mpt/tokenizer/chat/jinja/builtins.hpp>

namespace mpt::jinja::filters {

[[nodiscard]] value first_item(environment& state, arguments& args);
[[nodiscard]] value join_items(environment& state, arguments& args);
[[nodiscard]] value largest(environment& state, arguments& args);
[[nodiscard]] value last_item(environment& state, arguments& args);
[[nodiscard]] value list_items(environment& state, arguments& args);
[[nodiscard]] value map_items(environment& state, arguments& args);
[[nodiscard]] value pairs(environment& state, arguments& args);
[[nodiscard]] value reject(environment& state, arguments& args);
[[nodiscard]] value reject_attribute(environment& state, arguments& args);
[[nodiscard]] value reverse(environment& state, arguments& args);
[[nodiscard]] value select(environment& state, arguments& args);
[[nodiscard]] value select_attribute(environment& state, arguments& args);
[[nodiscard]] value smallest(environment& state, arguments& args);
[[nodiscard]] value sort(environment& state, arguments& args);
[[nodiscard]] value sort_dictionary(environment& state, arguments& args);
[[nodiscard]] value sum(environment& state, arguments& args);
[[nodiscard]] value unique(environment& state, arguments& args);

}  // namespace mpt::jinja::filters
