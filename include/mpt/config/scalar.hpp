// Scalars of YAML 1.1 as LLM Foundry's loader reads them: integers, numbers, booleans.
//
// `6.0e-4`, `1e-08`, `.5` and `4_000_000` are numbers; an integer may be written `1e3` or `256.0`
// as long as it is one; booleans are true/false/yes/no/on/off. Locale plays no part. Each function
// returns nothing for text of another form, so that the caller can say what was expected and where.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpt {

namespace detail {

/// The digits without YAML 1.1's separators: "4_000" -> "4000"; nothing where '_' is misplaced.
[[nodiscard]] inline std::optional<std::string> without_separators(std::string_view text) {
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
      return std::nullopt;
  }
  return digits;
}

}  // namespace detail

/// A finite decimal number, or nothing.
[[nodiscard]] inline std::optional<double> parse_number(std::string_view text) {
  auto const digits = detail::without_separators(text);
  if (!digits || digits->empty()) return std::nullopt;
  char const* begin = digits->data();
  char const* const end = begin + digits->size();
  if (*begin == '+') ++begin;
  if (begin == end || (begin != digits->data() && (*begin == '+' || *begin == '-')))
    return std::nullopt;
  char const first = *begin == '-' && begin + 1 != end ? begin[1] : *begin;
  if (first != '.' && (first < '0' || first > '9')) return std::nullopt;  // inf, nan, words
  double value = 0;
  auto const [stop, code] = std::from_chars(begin, end, value);
  if (code != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// An integer, also when written as a number without a fraction (`1e3`), or nothing.
[[nodiscard]] inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  auto const digits = detail::without_separators(text);
  if (!digits || digits->empty()) return std::nullopt;
  char const* begin = digits->data();
  char const* const end = begin + digits->size();
  if (*begin == '+') ++begin;
  if (begin == end || (begin != digits->data() && (*begin == '+' || *begin == '-')))
    return std::nullopt;
  std::int64_t value = 0;
  auto const [stop, code] = std::from_chars(begin, end, value);
  if (code == std::errc{} && stop == end) return value;
  constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double is not one integer
  auto const number = parse_number(text);
  if (!number || std::fabs(*number) > exact || *number != std::trunc(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// true/false, yes/no, on/off in lower, upper or title case, or nothing.
[[nodiscard]] inline std::optional<bool> parse_bool(std::string_view text) {
  for (std::string_view const word :
       {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == word) return true;
  for (std::string_view const word :
       {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == word) return false;
  return std::nullopt;
}

}  // namespace mpt
