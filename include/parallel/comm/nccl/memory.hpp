// nccl::memory: allocations by ncclMemAlloc.
//
// Only in such memory do the other GPUs of a machine and NVLink's switches read, write and reduce
// without a copy: NCCL registers memory of cudaMalloc for networks only. Allocations are multiples
// of 2 MiB. Where the driver cannot share memory (NCCL_CUMEM_ENABLE=0) NCCL uses cudaMalloc.
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
  /// `bytes` of the current GPU's memory; null if there are not as many. They are freed, on the
  /// current GPU, when all work that the GPU has been given by then has run, as by cudaFree.
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
      static_cast<void>(cudaDeviceSynchronize());  // ncclMemFree does not wait for the GPU
      static_cast<void>(ncclMemFree(piece));
    });
    std::scoped_lock const lock(mutex_);
    pieces_.insert(data);
    return out;
  }

  /// Whether an allocation begins at `data`.
  [[nodiscard]] bool contains_allocation(void const* data) const {
    std::scoped_lock const lock(mutex_);
    return pieces_.contains(data);
  }

 private:
  mutable std::mutex mutex_;
  std::set<void const*> pieces_;  // allocated and not freed
};

}  // namespace parallel::nccl
