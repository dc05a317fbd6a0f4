// cuda::pinned_pool: pinned memory of the host that is kept for the next who asks for as much.
//
// CUDA frees pinned memory only when every GPU of the process is idle. Where ranks are threads with
// a GPU each, that waits for exchanges of other ranks, which may wait for the thread that frees.
// What takes it may wait too, so some small pieces, for a step's results, are taken before a step.
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

/// Of one device; thread-safe.
class pinned_pool {
 public:
  explicit pinned_pool(int device) : device_(device) {}
  pinned_pool(pinned_pool const&) = delete;
  pinned_pool& operator=(pinned_pool const&) = delete;
  ~pinned_pool() {
    for (void* const memory : allocated_) static_cast<void>(cudaFreeHost(memory));
  }

  /// Takes some pieces of few bytes, unless there are: then those who ask for so few allocate
  /// nothing.
  void reserve() {
    {
      std::scoped_lock const lock(mutex_);
      if (std::exchange(reserved_, true)) return;
    }
    auto* const all = static_cast<std::byte*>(allocate(small_pieces * small_bytes));
    std::scoped_lock const lock(mutex_);
    for (std::size_t i = 0; i < small_pieces; ++i)
      free_.emplace(small_bytes, all + i * small_bytes);
  }

  /// Uninitialised.
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

  /// Waits until this device is idle, which may still use it.
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
  std::multimap<std::size_t, void*> free_;  // by their bytes
};

}  // namespace parallel::cuda
