// plain_text: text from files, servers and models for a terminal, which obeys some characters
// instead of showing them.
#pragma once

#include <string>
#include <string_view>

namespace mpt::console {

/// `text` with U+FFFD in place of everything that a terminal or browser obeys: bytes that are not
/// UTF-8, control characters except line ends and tabs, and characters that change the direction of
/// the text around them.
[[nodiscard]] std::string plain_text(std::string_view text);

/// The same on one line: line ends and tabs become spaces.
[[nodiscard]] std::string plain_line(std::string_view text);

}  // namespace mpt::console
