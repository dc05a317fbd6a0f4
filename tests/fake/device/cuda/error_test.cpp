// Messages of failed CUDA calls, on a fake runtime.
#include <doctest/doctest.h>

#include <parallel/device/cuda/error.hpp>

#include "support/devices/fake_cuda.hpp"

TEST_CASE("cuda::check: the error for missing GPU code says how to build") {
  CHECK_NOTHROW(parallel::cuda::check(cudaSuccess, "add"));
  CHECK_THROWS_WITH_AS(
      parallel::cuda::check(cudaErrorNoKernelImageForDevice, "add"),
      doctest::Contains("built for other GPUs, or for a newer driver: build it with "
                        "CMAKE_CUDA_ARCHITECTURES=native"),
      parallel::error);
  CHECK_THROWS_WITH_AS(parallel::cuda::check(cudaErrorInvalidValue, "add"),
                       doctest::Contains("CUDA: add failed with"), parallel::error);
}
