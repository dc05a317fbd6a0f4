// The ways in which ranks that hold other parts of the same sequences attend together.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel::context_parallel {

/// ring: keys and values go round (any number of heads; hidden behind computation). ulysses: heads
/// are exchanged for positions (fewer bytes for many ranks; heads must divide among them).
enum class method : std::uint8_t { ring, ulysses };

}  // namespace parallel::context_parallel
