// The page of a run or of several: one HTML file that needs no network, in which text from files is
// shown as text, whatever it says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// `text` for an element or a quoted attribute: markup is escaped, and what a browser would obey is
/// replaced (console::plain_text).
[[nodiscard]] std::string escape(std::string_view text);

/// `value` for a script element: nothing in it can end the element.
[[nodiscard]] std::string json_in_script(nlohmann::ordered_json const& value);

/// `bytes` as base64, for a data URL.
[[nodiscard]] std::string base64(std::string_view bytes);

/// Whether this program was built with the library that draws charts.
[[nodiscard]] bool has_charts();

/// The page of `runs` (at least one, with different names). An empty `title` is made from names.
[[nodiscard]] std::string page_of(std::vector<run_record> const& runs, std::string const& title);

}  // namespace mpt::report

namespace mpt::report::detail {

// The files that a page carries, as the build found them.
extern std::string_view const chart_library;         ///< JavaScript; "" where it was not found
extern std::string_view const chart_library_styles;  ///< CSS
extern std::string_view const page_script;
extern std::string_view const page_styles;

}  // namespace mpt::report::detail
