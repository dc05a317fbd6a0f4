// The files that a page carries, as the build found them.
#pragma once

#include <string_view>

namespace mpt::report::detail {

extern std::string_view const chart_library;         ///< JavaScript; "" where it was not found
extern std::string_view const chart_library_styles;  ///< CSS
extern std::string_view const page_script;
extern std::string_view const page_styles;

}  // namespace mpt::report::detail
