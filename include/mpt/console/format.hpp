// Numbers as people read them: 18.4k, 1.2 GiB, 2:41.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace mpt::console {

/// 950 → "950", 18432 → "18.4k", 2.5e9 → "2.50B": three significant digits with a decimal suffix.
[[nodiscard]] inline std::string count(double value) {
  constexpr char const* suffixes[] = {"", "k", "M", "B", "T"};
  std::size_t power = 0;
  while (std::abs(value) >= 999.5 && power < 4) {
    value /= 1000;
    ++power;
  }
  if (power == 0) return fmt::format("{:.0f}", value);
  int const decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, suffixes[power]);
}

/// Binary units: "512 MiB", "1.2 GiB".
[[nodiscard]] inline std::string bytes(double value) {
  constexpr char const* suffixes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t power = 0;
  while (value >= 1023.5 && power < 5) {
    value /= 1024;
    ++power;
  }
  return fmt::format("{:.{}f} {}", value, power > 2 && value < 99.95 ? 1 : 0, suffixes[power]);
}

/// Seconds as "0:07", "2:41", "3:05:00", "2d 04h".
[[nodiscard]] inline std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "–";
  auto const total = static_cast<std::int64_t>(std::llround(seconds));
  if (total >= 86400) return fmt::format("{}d {:02}h", total / 86400, total % 86400 / 3600);
  if (total >= 3600)
    return fmt::format("{}:{:02}:{:02}", total / 3600, total % 3600 / 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

/// 1234567 → "1,234,567".
[[nodiscard]] inline std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return value < 0 ? "-" + digits : digits;
}

}  // namespace mpt::console
