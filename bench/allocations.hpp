// How much memory a program asks for: operator new, counted (see allocations.cpp).
#pragma once

#include <cstddef>

namespace bench {

struct allocations {
  std::size_t calls = 0;
  std::size_t bytes = 0;
  std::size_t largest = 0;
};

/// Since the last call.
[[nodiscard]] allocations take_allocations();

}  // namespace bench
