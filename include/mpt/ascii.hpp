// ascii: letters and blanks of ASCII, as in names of files, units and headers; other bytes stay as
// they are, whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace mpt {

/// `text` with small letters a to z in place of capitals.
[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return out;
}

/// `text` without spaces, tabs and line ends at its ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

}  // namespace mpt
