// cuda::constant_memory: copies of constant numbers, such as slopes and frequencies, in a GPU's
// memory.
//
// Constants are first requested in the middle of a step, where cudaMalloc must not be called: it
// may wait for exchanges of this rank and, if ranks are threads, of other ranks. So reserve()
// allocates a block in advance that is large enough for any model. Only constants that do not fit
// there allocate memory at their first request.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

/// The constants of one GPU, which must be current in every call.
class constant_memory {
 public:
  /// Allocates the block unless it exists. If there is not enough memory, constants allocate their
  /// own memory when they are added.
  void reserve() {
    if (next_ != nullptr) return;
    void* memory = nullptr;
    auto const status = cudaMalloc(&memory, block_bytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return;
    }
    check(status, "cudaMalloc for constants");
    pieces_.emplace_back(memory);
    next_ = static_cast<std::byte*>(memory);
    remaining_bytes_ = block_bytes;
  }

  /// The copy of these bytes; null if there is none yet.
  [[nodiscard]] void const* find(std::string const& bytes) const {
    auto const found = copies_.find(bytes);
    return found == copies_.end() ? nullptr : found->second;
  }

  /// Enqueues a copy of these bytes on a stream. Later work of the stream may read it.
  [[nodiscard]] void const* add(std::string bytes, cudaStream_t stream) {
    std::size_t const rounded_bytes = (bytes.size() + alignment - 1) / alignment * alignment;
    void* to = nullptr;
    if (rounded_bytes <= remaining_bytes_) {
      remaining_bytes_ -= rounded_bytes;
      to = std::exchange(next_, next_ + rounded_bytes);
    } else {
      check(cudaMalloc(&to, rounded_bytes), "cudaMalloc of constants");
      pieces_.emplace_back(to);
    }
    check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync of constants");  // has read `bytes` when it returns
    copies_.emplace(std::move(bytes), to);
    return to;
  }

 private:
  static constexpr std::size_t alignment = 256, block_bytes = std::size_t{64} << 10;

  struct free {
    void operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }
  };

  std::vector<std::unique_ptr<void, free>> pieces_;
  std::byte* next_ = nullptr;  // first free byte of the block
  std::size_t remaining_bytes_ = 0;
  std::unordered_map<std::string, void const*> copies_;
};

}  // namespace parallel::cuda
