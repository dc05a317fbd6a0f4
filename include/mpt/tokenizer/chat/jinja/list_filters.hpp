// list_filters: the filters of jinja2 on sequences and dictionaries.
#pragma once

#include <mpt/tokenizer/chat/jinja/builtins.hpp>

namespace mpt::jinja::filters {

[[nodiscard]] value batch(environment& state, arguments& given);
[[nodiscard]] value first_item(environment& state, arguments& given);
[[nodiscard]] value group_by(environment& state, arguments& given);
[[nodiscard]] value join_items(environment& state, arguments& given);
[[nodiscard]] value largest(environment& state, arguments& given);
[[nodiscard]] value last_item(environment& state, arguments& given);
[[nodiscard]] value list_items(environment& state, arguments& given);
[[nodiscard]] value map_items(environment& state, arguments& given);
[[nodiscard]] value pairs(environment& state, arguments& given);
[[nodiscard]] value reject(environment& state, arguments& given);
[[nodiscard]] value reject_attribute(environment& state, arguments& given);
[[nodiscard]] value reverse(environment& state, arguments& given);
[[nodiscard]] value select(environment& state, arguments& given);
[[nodiscard]] value select_attribute(environment& state, arguments& given);
[[nodiscard]] value slice_items(environment& state, arguments& given);
[[nodiscard]] value smallest(environment& state, arguments& given);
[[nodiscard]] value sort(environment& state, arguments& given);
[[nodiscard]] value sort_dictionary(environment& state, arguments& given);
[[nodiscard]] value sum(environment& state, arguments& given);
[[nodiscard]] value unique(environment& state, arguments& given);

}  // namespace mpt::jinja::filters
