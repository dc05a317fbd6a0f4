// jinja_text: rewrites a chat template so that its string operations work on code points, as in
// Python, although minja's strings are bytes:
//
//   x[1:3]      (py_slice(x, 1, 3, none))       x[i]         (py_item(x, i))
//   x.upper()   (py_upper(x))                   for c in x   for c in py_items(x)
//
// and escapes such as \u00e9 are replaced by their characters. Line numbers do not change.
// Templates that are nested too deep or too long are refused before the recursive parser reads
// them.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

/// The rewritten template. Throws for a text above 1 MiB, or with brackets more than 200 deep.
[[nodiscard]] std::string jinja_by_code_points(std::string_view text);

}  // namespace mpt
