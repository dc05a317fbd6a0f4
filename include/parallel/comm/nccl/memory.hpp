// nccl::memory: what ncclMemAlloc gave.
//
// Only in such memory do the other GPUs of a machine and NVLink's switches read, write and reduce
// without a copy: NCCL registers what cudaMalloc gave for networks alone. Its pieces are multiples
// of 2 MiB. Where the driver cannot share memory (NCCL_CUMEM_ENABLE=0) NCCL takes cudaMalloc's.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

#include <parallel/core/config.hpp>

namespace parallel::nccl {

class memory : public std::enable_shared_from_this<memory> {
 public:
  /// So many bytes of the current GPU; null: there are not as many. Freed, on the current GPU, when
  /// all that the GPU was given by then has run, as by cudaFree.
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes) {
    void* data = nullptr;
    if (ncclMemAlloc(&data, bytes) != ncclSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    std::shared_ptr<void> out(data, [self = shared_from_this()](void* piece) {
      {
        std::scoped_lock const lock(self->mutex_);
        self->pieces_.erase(piece);
      }
      static_cast<void>(cudaDeviceSynchronize());  // what is unmapped is not waited for
      static_cast<void>(ncclMemFree(piece));
    });
    std::scoped_lock const lock(mutex_);
    pieces_.insert(data);
    return out;
  }

  /// Whether a piece begins there.
  [[nodiscard]] bool gave(void const* data) const {
    std::scoped_lock const lock(mutex_);
    return pieces_.contains(data);
  }

 private:
  mutable std::mutex mutex_;
  std::set<void const*> pieces_;  // that are not freed
};

}  // namespace parallel::nccl
