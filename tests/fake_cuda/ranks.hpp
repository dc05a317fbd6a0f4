// Ranks as threads on GPUs of the fake machine: each has its own GPU, or several share one.
#pragma once

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/cuda.hpp>

#include "fake_cuda/runtime.hpp"

namespace fake_cuda {

/// launch(ranks, program) calls program(communicator) for each rank, with its GPU current.
[[nodiscard]] inline auto ranks_on(int gpus) {
  return [gpus](int ranks, auto const& program) {
    parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
      parallel::cuda::check(cudaSetDevice(comm.rank() % gpus), "cudaSetDevice");
      program(comm);
    });
  };
}

/// A device object for the calling thread's current GPU.
[[nodiscard]] inline parallel::cuda::device current_gpu(
    parallel::cuda::stream_options options = {}) {
  parallel::cuda::check(cudaGetDevice(&options.device), "cudaGetDevice");
  return parallel::cuda::device(options);
}

/// The peak bytes of the operations' scratch on each GPU, summed over the GPUs.
[[nodiscard]] inline std::size_t peak_scratch(int gpus) {
  std::size_t sum = 0;
  for (int gpu = 0; gpu < gpus; ++gpu)
    sum += parallel::cuda::device({.device = gpu}).peak_scratch_bytes();
  return sum;
}

}  // namespace fake_cuda
