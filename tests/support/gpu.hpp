// What tests on a GPU begin with: the case's name, so that what was under way is known when a loan
// ends, and the GPU, or a clear word and success where there is none.
#pragma once

#include <cstdio>

#include <doctest/doctest.h>

#include <parallel/device/cuda/device.hpp>

namespace test {

/// Whether a test can run; says so when it cannot, and which one begins when it can, at once.
[[nodiscard]] inline bool has_gpu() {
  if (parallel::cuda::device::count() > 0) {
    std::printf("%s ...\n", doctest::getContextOptions()->currentTest->m_name);
    std::fflush(stdout);
    return true;
  }
  MESSAGE("skipped: this machine has no GPU");
  return false;
}

}  // namespace test
