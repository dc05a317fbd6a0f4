// random_bytes: bytes of the system's random number generator, which no other program can predict.
// (Random numbers of a training come from philox.hpp, and are the same in every run.)
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <parallel/core/error.hpp>

namespace parallel {

/// Fills `bytes`, at most 256, with random bytes. Returns whether the system has any.
[[nodiscard]] inline bool fill_randomly(std::span<std::byte> bytes) {
  return ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size());
}

/// `count` random bytes, at most 256. Throws if the system has none.
[[nodiscard]] inline std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  require(fill_randomly(std::as_writable_bytes(std::span(bytes))),
          "the system gives no random numbers");
  return bytes;
}

/// A random number of 64 bits. Throws if the system has none.
[[nodiscard]] inline std::uint64_t random_number() {
  std::uint64_t number = 0;
  require(fill_randomly(std::as_writable_bytes(std::span(&number, 1))),
          "the system gives no random numbers");
  return number;
}

}  // namespace parallel
