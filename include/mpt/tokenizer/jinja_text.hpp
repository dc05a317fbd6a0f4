// jinja_text: a chat template rewritten so that what it asks of strings is answered by code points,
// as Python answers, where its interpreter has bytes:
//
//   x[1:3]      (py_slice(x, 1, 3, none))       x[i]         (py_item(x, i))
//   x.upper()   (py_upper(x))                   for c in x   for c in py_items(x)
//
// and escapes such as \u00e9 stand for their characters. Lines stay what they were. Too deep and
// too long templates are refused, before they are parsed by recursion.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

/// The template as above. Throws for one above 1 MiB, or with brackets nested above 200.
[[nodiscard]] std::string jinja_by_code_points(std::string_view text);

}  // namespace mpt
