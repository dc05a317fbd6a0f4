#include <mpt/yaml/scalar.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include <mpt/ascii.hpp>

namespace mpt {
namespace {

/// The text without YAML 1.1's separators: "4_000" -> "4000"; std::nullopt if a '_' is not between
/// two digits, or is in an exponent.
[[nodiscard]] std::optional<std::string> without_separators(std::string_view text) {
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]) ||
             digits.find_first_of("eE") != std::string::npos)
      return std::nullopt;
  }
  return digits;
}

/// The value of digits in `base`, which '_' may separate; std::nullopt if another character occurs
/// or 64 bits do not hold the value.
[[nodiscard]] std::optional<std::uint64_t> parse_digits(std::string_view text, int base) {
  std::string digits(text);
  std::erase(digits, '_');
  std::uint64_t value = 0;
  auto const* const end = digits.data() + digits.size();
  auto const [stop, code] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// The value of a sexagesimal number such as `1:30`, in which each part after the first is below
/// sixty; std::nullopt for other text.
[[nodiscard]] std::optional<std::uint64_t> parse_sexagesimal(std::string_view text) {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max() / 60 - 1;
  if (text.front() < '1' || text.front() > '9') return std::nullopt;
  auto colon = text.find(':');
  auto value = parse_digits(text.substr(0, colon), 10);
  while (value && colon != std::string_view::npos) {
    text.remove_prefix(colon + 1);
    colon = text.find(':');
    auto const part = text.substr(0, colon);
    auto const digits =
        part.size() <= 2 && part.find('_') == part.npos ? parse_digits(part, 10) : std::nullopt;
    if (!digits || *digits >= 60 || *value > largest) return std::nullopt;
    value = *value * 60 + *digits;
  }
  return value;
}

/// The value of an unsigned integer as YAML 1.1 reads it.
[[nodiscard]] std::optional<std::uint64_t> parse_magnitude(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  if (text == "0") return 0;
  if (text.find(':') != std::string_view::npos) return parse_sexagesimal(text);
  if (text.front() != '0') return parse_digits(text, 10);
  if (text[1] == 'x') return parse_digits(text.substr(2), 16);
  if (text[1] == 'b') return parse_digits(text.substr(2), 2);
  return parse_digits(text, 8);
}

/// The value of an integer as YAML 1.1 reads it; std::nullopt if the text is no integer or 64 bits
/// do not hold it.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text) {
  bool const is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  auto const magnitude = parse_magnitude(text);
  constexpr auto largest = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!magnitude || *magnitude > largest) return std::nullopt;
  auto const value = static_cast<std::int64_t>(*magnitude);
  return is_negative ? -value : value;
}

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  auto const digits = without_separators(text);
  if (!digits || digits->empty()) return std::nullopt;
  char const* begin = digits->data();
  char const* const end = begin + digits->size();
  if (*begin == '+') ++begin;
  if (begin == end || (begin != digits->data() && (*begin == '+' || *begin == '-')))
    return std::nullopt;
  char const first_digit = *begin == '-' && begin + 1 != end ? begin[1] : *begin;
  if (first_digit != '.' && (first_digit < '0' || first_digit > '9'))
    return std::nullopt;  // "inf", "nan" and other words are no numbers
  double value = 0;
  auto const [stop, code] = std::from_chars(begin, end, value);
  if (code != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (auto const whole = parse_whole(text)) return static_cast<double>(*whole);
  auto const digits = text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
  bool const is_decimal = text.find_first_of(".eE") != std::string_view::npos;
  if (digits.starts_with('0') && !is_decimal) return std::nullopt;  // YAML reads `08` as text
  return parse_decimal(text);
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (auto const whole = parse_whole(text)) return whole;
  constexpr double max_exact =
      9007199254740992.0;  // 2^53: a larger double may stand for several integers
  auto const number = parse_number(text);
  if (!number || std::fabs(*number) > max_exact || *number != std::trunc(*number))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<bool> parse_bool(std::string_view text) {
  for (std::string_view const word :
       {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == word) return true;
  for (std::string_view const word :
       {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == word) return false;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> units{{{"kib", 0x1p10},
                                                                      {"mib", 0x1p20},
                                                                      {"gib", 0x1p30},
                                                                      {"tib", 0x1p40},
                                                                      {"kb", 1e3},
                                                                      {"mb", 1e6},
                                                                      {"gb", 1e9},
                                                                      {"tb", 1e12},
                                                                      {"b", 1}}};
  auto lower = lower_case(text);
  double unit = 1;
  for (auto const& [name, bytes] : units)
    if (lower.ends_with(name)) {
      unit = bytes;
      lower.resize(lower.size() - name.size());
      break;
    }
  while (lower.ends_with(' ')) lower.pop_back();
  auto const number = parse_decimal(lower);
  if (!number || !(*number > 0) || *number * unit > 0x1p60) return std::nullopt;
  return static_cast<std::uint64_t>(*number * unit);
}

}  // namespace mpt
