// CUDA errors as parallel::error, and the current device as a scope.
//
// CUDA keeps the last error of a failed launch ("sticky" until read); it is read before throwing,
// so that the next call does not report it again. Needs cuda_runtime_api.h only, no nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <parallel/core/call_site.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

namespace parallel::cuda {

/// Throws `error`, `out_of_memory` where that is the reason, naming `call`, CUDA's reason and the
/// call site, unless `status` is success.
inline void check(cudaError_t status, char const* call, call_site where = call_site::current()) {
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
      " (", where, ")");
  if (status == cudaErrorMemoryAllocation) fail<out_of_memory>(text);
  fail(text);
}

/// Makes `device` current on the calling thread; the destructor brings back the one before. Where
/// it is current already nothing is called: making a GPU current takes some 500 MB of its memory
/// for the process, so nobody may come back to GPU 0 only because threads begin there.
class device_scope {
 public:
  explicit device_scope(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (device == before_) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  ~device_scope() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace parallel::cuda
