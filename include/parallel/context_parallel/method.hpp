// The methods by which ranks that hold different parts of the same sequences attend together.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel::context_parallel {

/// ring: keys and values circulate (any number of heads; overlaps with computation). ulysses: heads
/// are exchanged for positions (fewer bytes for many ranks; heads must divide among the ranks).
enum class method : std::uint8_t { ring, ulysses };

}  // namespace parallel::context_parallel
