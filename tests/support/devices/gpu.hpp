// The beginning of tests on a GPU: it prints the name of the test case, so that the running test is
// known if the machine is taken away, and skips the test if there is no GPU.
#pragma once

#include <cstdio>

#include <doctest/doctest.h>

#include <parallel/device/cuda/device.hpp>

namespace test {

/// Whether this machine has a GPU. Prints the name of the test that begins, or that it is skipped.
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
