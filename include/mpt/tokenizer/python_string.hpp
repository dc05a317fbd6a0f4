// python_string: operations of Python's str, on code points: lower and upper case, slices, strip
// and split. Chat templates rely on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/character_class.hpp>

namespace mpt::python {

/// The code points of text in UTF-8.
[[nodiscard]] std::u32string decode(std::string_view text);

/// Code points as UTF-8.
[[nodiscard]] std::string encode(std::u32string_view text);

/// str.isspace() of one character.
[[nodiscard]] constexpr bool is_space(char32_t c) {
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

/// str.isalpha() of one character, as far as its category says it.
[[nodiscard]] bool is_alphabetic(char32_t c);
/// str.isdecimal() of one character.
[[nodiscard]] bool is_decimal(char32_t c);
/// str.isnumeric() of one character.
[[nodiscard]] bool is_numeric(char32_t c);

/// Whether a character may stand in a name of Python.
[[nodiscard]] bool is_name_character(char32_t c);

/// str.isprintable() of one character.
[[nodiscard]] bool is_printable(char32_t c);

/// Whether any character has a case, and all that have one are in lower case:
/// str.islower().
[[nodiscard]] bool is_lower(std::u32string_view text);
/// str.isupper().
[[nodiscard]] bool is_upper(std::u32string_view text);

/// str.lower().
[[nodiscard]] std::u32string lower(std::u32string_view text);

/// str.upper().
[[nodiscard]] std::u32string upper(std::u32string_view text);

/// str.capitalize().
[[nodiscard]] std::u32string capitalize(std::u32string_view text);

/// str.title().
[[nodiscard]] std::u32string title(std::u32string_view text);

/// str.strip(), lstrip and rstrip; without `characters` white space is stripped.
[[nodiscard]] std::u32string_view strip(std::u32string_view text, bool left, bool right,
                                        std::optional<std::u32string_view> characters);

/// str.split() at runs of white space, at most `max_splits` times; below 0: without limit.
[[nodiscard]] std::vector<std::u32string_view> split(std::u32string_view text,
                                                     std::int64_t max_splits);

/// The indices of a slice [begin:end:step] of a sequence of `size` elements; step is not 0.
[[nodiscard]] std::vector<std::size_t> slice_indices(std::size_t size,
                                                     std::optional<std::int64_t> begin,
                                                     std::optional<std::int64_t> end,
                                                     std::int64_t step);

}  // namespace mpt::python
