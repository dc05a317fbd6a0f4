// memory_usage: how many bytes a device has given out, and the most there were at once.
#pragma once

#include <atomic>
#include <cstddef>

#include <parallel/core/config.hpp>

namespace parallel {

/// Counted from any thread.
struct memory_usage {
  std::atomic<std::size_t> live = 0;
  std::atomic<std::size_t> peak = 0;

  void add(std::size_t bytes) {
    std::size_t const now = live += bytes;
    std::size_t most = peak;
    while (most < now && !peak.compare_exchange_weak(most, now)) {
    }
  }
};

}  // namespace parallel
