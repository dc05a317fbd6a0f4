// Text from files in a page or on a terminal: whatever it says, it is shown as text.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mpt::report {

/// `text` as one for a terminal: bytes that are no UTF-8 and control characters, except line ends
/// and tabs, are replaced by U+FFFD.
[[nodiscard]] std::string without_controls(std::string_view text);

/// `text` for an element or a quoted attribute: markup is escaped, bytes that are no UTF-8 and
/// control characters are replaced.
[[nodiscard]] std::string escape(std::string_view text);

/// `value` for a script element: nothing in it can end the element.
[[nodiscard]] std::string json_in_script(nlohmann::ordered_json const& value);

/// `bytes` as base64, for a data URL.
[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace mpt::report
