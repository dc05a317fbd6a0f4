// memory_usage: the bytes that a device has allocated, and their peak.
#pragma once

#include <atomic>
#include <cstddef>

#include <parallel/core/config.hpp>

namespace parallel {

/// Thread-safe.
struct memory_usage {
  std::atomic<std::size_t> live = 0;
  std::atomic<std::size_t> peak = 0;

  void add(std::size_t bytes) {
    std::size_t const bytes_in_use = live += bytes;
    std::size_t known_peak = peak;
    while (known_peak < bytes_in_use && !peak.compare_exchange_weak(known_peak, bytes_in_use)) {
    }
  }
};

}  // namespace parallel
