// Numbers as people read them: 18.4k, 1.2 GiB, 2:41.
#pragma once

#include <cstdint>
#include <string>

namespace mpt::console {

/// 950 → "950", 18432 → "18.4k", 2.5e9 → "2.50B": three significant digits with a decimal suffix.
[[nodiscard]] std::string count(double value);

/// Binary units: "512 MiB", "1.2 GiB".
[[nodiscard]] std::string bytes(double value);

/// Seconds as "0:07", "2:41", "3:05:00", "2d 04h".
[[nodiscard]] std::string duration(double seconds);

/// 1234567 → "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t value);

}  // namespace mpt::console
