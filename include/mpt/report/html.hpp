// Text from files in a page: whatever it says, it is shown as text.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mpt::report {

/// `text` for an element or a quoted attribute: markup is escaped, and what a browser would obey is
/// replaced (console::plain_text).
[[nodiscard]] std::string escape(std::string_view text);

/// `value` for a script element: nothing in it can end the element.
[[nodiscard]] std::string json_in_script(nlohmann::ordered_json const& value);

/// `bytes` as base64, for a data URL.
[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace mpt::report
