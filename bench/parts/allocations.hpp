// The memory that a program allocates: a replaced operator new counts it (see allocations.cpp).
#pragma once

#include <cstddef>

namespace bench {

struct allocations {
  std::size_t calls = 0;
  std::size_t bytes = 0;
  std::size_t largest = 0;
};

/// Returns the allocations since the last call, and resets the counts.
[[nodiscard]] allocations take_allocations();

}  // namespace bench
