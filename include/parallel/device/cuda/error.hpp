// cuda::check throws CUDA errors as parallel::error; cuda::device_scope sets the current device.
//
// CUDA stores the error of a failed call until it is read. `check` reads it before it throws, so
// that the next call does not report it again. The header needs cuda_runtime_api.h, but no nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

namespace parallel::cuda {

/// Throws `error`, or `out_of_memory` if memory is the reason, unless `status` is success. The
/// message names `call`, CUDA's reason and the caller.
inline void check(cudaError_t status, char const* call, call_site caller = call_site::current()) {
  if (status == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());
  bool const other_device =
      status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion;
  auto const text = concat(
      "CUDA: ", call, " failed with ", cudaGetErrorName(status), ": ", cudaGetErrorString(status),
      other_device
          ? "; this program was built for other GPUs, or for a newer driver: build it with "
            "CMAKE_CUDA_ARCHITECTURES=native on this machine"
          : "",
      " (", caller, ")");
  if (status == cudaErrorMemoryAllocation) fail<out_of_memory>(text);
  fail(text);
}

/// Makes `device` current on the calling thread; the destructor restores the previous one. If
/// `device` is current already, cudaSetDevice is not called: the first cudaSetDevice of a process
/// for a GPU takes some 500 MB of its memory, and threads begin with GPU 0, which must not be set
/// only to restore it.
class device_scope {
 public:
  explicit device_scope(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    if (device == previous_) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  ~device_scope() {
    if (changed_) static_cast<void>(cudaSetDevice(previous_));
  }
  device_scope(device_scope&&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace parallel::cuda
