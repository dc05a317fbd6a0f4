// hash: a hash of text that is the same in every process and on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel {

/// FNV-1a of 64 bits (Fowler, Noll, Vo). It is not cryptographic: collisions can be constructed.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace parallel
