// hexadecimal: numbers and bytes as lower-case hexadecimal digits, and such digits as a number.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/config.hpp>

namespace parallel {

/// All digits of `value`, the most significant first: 16 for a number of 64 bits.
template <std::unsigned_integral Number>
[[nodiscard]] std::string hexadecimal(Number value) {
  std::string digits(2 * sizeof value, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    *digit = "0123456789abcdef"[value & 15U];
    value = static_cast<Number>(value >> 4);
  }
  return digits;
}

/// Two digits for each byte.
[[nodiscard]] inline std::string hexadecimal(std::span<std::byte const> bytes) {
  std::string digits;
  for (auto const byte : bytes) digits += hexadecimal(std::to_integer<unsigned char>(byte));
  return digits;
}

/// Whether `text` consists of lower-case hexadecimal digits.
[[nodiscard]] inline bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The number that 16 hexadecimal digits, lower-case or upper-case, stand for; nullopt for other
/// text.
[[nodiscard]] inline std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  auto const* const last = text.data() + text.size();
  auto const [end, problem] = std::from_chars(text.data(), last, value, 16);
  if (text.size() != 16 || problem != std::errc() || end != last) return std::nullopt;
  return value;
}

}  // namespace parallel
