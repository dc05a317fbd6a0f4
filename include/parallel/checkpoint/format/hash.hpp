// Checksums: XXH3, 64 bits (https://xxhash.com). Finds damage, not malice; faster than any disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include <xxhash.h>

#include <parallel/core/config.hpp>

namespace parallel::checkpoint {

/// XXH3 of these bytes.
[[nodiscard]] inline std::uint64_t checksum(std::span<std::byte const> bytes) {
  return ::XXH3_64bits(bytes.data(), bytes.size());
}
[[nodiscard]] inline std::uint64_t checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

/// XXH3 of bytes that are given in pieces.
class running_checksum {
 public:
  running_checksum() : state_(::XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    ::XXH3_64bits_reset(state_.get());
  }
  void add(std::span<std::byte const> bytes) {
    ::XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] std::uint64_t value() const { return ::XXH3_64bits_digest(state_.get()); }

 private:
  struct release {
    void operator()(::XXH3_state_t* state) const { ::XXH3_freeState(state); }
  };
  std::unique_ptr<::XXH3_state_t, release> state_;
};

}  // namespace parallel::checkpoint
