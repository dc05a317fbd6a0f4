// list_filters: the filters of jinja2 on sequences and dictionaries.
#pragma once

#include <mpt/tokenizer/chat/jinja/builtins.hpp>

namespace mpt::jinja::filters {

/// The filter first.
[[nodiscard]] value first_item(environment& state, arguments& args);
/// The filter join.
[[nodiscard]] value join_items(environment& state, arguments& args);
/// The filter max.
[[nodiscard]] value largest(environment& state, arguments& args);
/// The filter last.
[[nodiscard]] value last_item(environment& state, arguments& args);
/// The filter list.
[[nodiscard]] value list_items(environment& state, arguments& args);
/// The filter map.
[[nodiscard]] value map_items(environment& state, arguments& args);
/// The filter items.
[[nodiscard]] value pairs(environment& state, arguments& args);
/// The filter reject.
[[nodiscard]] value reject(environment& state, arguments& args);
/// The filter rejectattr.
[[nodiscard]] value reject_attribute(environment& state, arguments& args);
/// The filter reverse.
[[nodiscard]] value reverse(environment& state, arguments& args);
/// The filter select.
[[nodiscard]] value select(environment& state, arguments& args);
/// The filter selectattr.
[[nodiscard]] value select_attribute(environment& state, arguments& args);
/// The filter min.
[[nodiscard]] value smallest(environment& state, arguments& args);
/// The filter sort.
[[nodiscard]] value sort(environment& state, arguments& args);
/// The filter dictsort.
[[nodiscard]] value sort_dictionary(environment& state, arguments& args);
/// The filter sum.
[[nodiscard]] value sum(environment& state, arguments& args);
/// The filter unique.
[[nodiscard]] value unique(environment& state, arguments& args);

}  // namespace mpt::jinja::filters
