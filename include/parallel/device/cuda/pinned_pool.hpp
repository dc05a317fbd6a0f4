// cuda::pinned_pool: pinned memory of the host that is kept for the next who asks for as much.
//
// CUDA frees pinned memory only when every GPU of the process is idle. Where ranks are threads with
// a GPU each, that waits for exchanges of other ranks, which may wait for the thread that frees.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>

#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

/// Of one device; thread-safe.
class pinned_pool {
 public:
  explicit pinned_pool(int device) : device_(device) {}
  pinned_pool(pinned_pool const&) = delete;
  pinned_pool& operator=(pinned_pool const&) = delete;
  ~pinned_pool() {
    for (auto const& [bytes, memory] : free_) static_cast<void>(cudaFreeHost(memory));
  }

  /// Uninitialised.
  [[nodiscard]] void* take(std::size_t bytes) {
    {
      std::scoped_lock const lock(mutex_);
      if (auto const found = free_.find(bytes); found != free_.end()) {
        void* const memory = found->second;
        free_.erase(found);
        return memory;
      }
    }
    device_scope const scope(device_);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc");
    return memory;
  }

  /// Waits until this device is idle, which may still use it.
  void give_back(void* memory, std::size_t bytes) {
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(cudaDeviceSynchronize());
    std::scoped_lock const lock(mutex_);
    free_.emplace(bytes, memory);
  }

 private:
  int device_;
  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;  // by their bytes
};

}  // namespace parallel::cuda
