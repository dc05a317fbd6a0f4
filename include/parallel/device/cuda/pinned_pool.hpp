// cuda::pinned_pool: pinned memory of the host, reused for later requests of the same size.
//
// CUDA frees pinned memory only when every GPU of the process is idle. If ranks are threads with a
// GPU each, freeing waits for exchanges of other ranks, which may wait for the thread that frees.
// Allocation may wait, too, so some small blocks, for the results of a step, are allocated before a
// step.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

/// Belongs to one device; thread-safe.
class pinned_pool {
 public:
  explicit pinned_pool(int device) : device_(device) {}
  pinned_pool(pinned_pool&&) = delete;
  ~pinned_pool() {
    for (void* const memory : allocated_) static_cast<void>(cudaFreeHost(memory));
  }

  /// Allocates some small blocks, at the first call only. Later small requests are served from
  /// them.
  void reserve() {
    {
      std::scoped_lock const lock(mutex_);
      if (std::exchange(reserved_, true)) return;
    }
    auto* const pieces = static_cast<std::byte*>(allocate(small_pieces * small_bytes));
    std::scoped_lock const lock(mutex_);
    for (std::size_t i = 0; i < small_pieces; ++i)
      free_.emplace(small_bytes, pieces + i * small_bytes);
  }

  /// At least `bytes` of uninitialised memory.
  [[nodiscard]] void* take(std::size_t bytes) {
    bytes = std::max(bytes, small_bytes);
    {
      std::scoped_lock const lock(mutex_);
      if (auto const found = free_.find(bytes); found != free_.end()) {
        void* const memory = found->second;
        free_.erase(found);
        return memory;
      }
    }
    return allocate(bytes);
  }

  /// Makes memory from take(bytes) available again. Waits until this device is idle, since it may
  /// still use the memory.
  void give_back(void* memory, std::size_t bytes) {
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(cudaDeviceSynchronize());
    std::scoped_lock const lock(mutex_);
    free_.emplace(std::max(bytes, small_bytes), memory);
  }

 private:
  static constexpr std::size_t small_bytes = 256, small_pieces = 16;

  [[nodiscard]] void* allocate(std::size_t bytes) {
    device_scope const scope(device_);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc");
    std::scoped_lock const lock(mutex_);
    allocated_.push_back(memory);
    return memory;
  }

  int device_;
  std::mutex mutex_;
  bool reserved_ = false;
  std::vector<void*> allocated_;
  std::multimap<std::size_t, void*> free_;  // by size in bytes
};

}  // namespace parallel::cuda
