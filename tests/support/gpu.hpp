// What tests on a GPU begin with: the GPU, or a clear word and success where there is none.
#pragma once

#include <cstddef>

#include <doctest/doctest.h>

#include <parallel/device/cuda/device.hpp>

namespace test {

/// Whether a test can run; says so when it cannot.
[[nodiscard]] inline bool has_gpu() {
  if (parallel::cuda::device::count() > 0) return true;
  MESSAGE("skipped: this machine has no GPU");
  return false;
}

}  // namespace test
