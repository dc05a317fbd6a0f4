#include <mpt/console/format.hpp>

#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace mpt::console {

std::string count(double value) {
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

std::string bytes(double value) {
  constexpr char const* suffixes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t power = 0;
  while (value >= 1023.5 && power < 5) {
    value /= 1024;
    ++power;
  }
  return fmt::format("{:.{}f} {}", value, power > 2 && value < 99.95 ? 1 : 0, suffixes[power]);
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "–";
  auto const total = static_cast<std::int64_t>(std::llround(seconds));
  if (total >= 86400) return fmt::format("{}d {:02}h", total / 86400, total % 86400 / 3600);
  if (total >= 3600)
    return fmt::format("{}:{:02}:{:02}", total / 3600, total % 3600 / 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (auto position = static_cast<std::ptrdiff_t>(digits.size()) - 3; position > 0; position -= 3)
    digits.insert(static_cast<std::size_t>(position), ",");
  return value < 0 ? "-" + digits : digits;
}

}  // namespace mpt::console
