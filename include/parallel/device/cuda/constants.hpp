// cuda::constant_memory: a few numbers that stay what they are, such as slopes and frequencies, in
// a GPU's memory.
//
// They are first asked for in the middle of a step, where cudaMalloc must not be called: it may
// wait for exchanges of this rank and, where ranks are threads, of others. So a block is taken
// before, which holds those of any model; only what does not fit there takes memory when it comes.
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

/// Of one GPU, which is current in every call.
class constant_memory {
 public:
  /// Takes the block, if there is none; without memory for it they take theirs when they come.
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
    left_ = block_bytes;
  }

  /// The copy of these bytes; null: there is none yet.
  [[nodiscard]] void const* find(std::string const& bytes) const {
    auto const found = copies_.find(bytes);
    return found == copies_.end() ? nullptr : found->second;
  }

  /// Copies them on a stream, behind which they are there.
  [[nodiscard]] void const* add(std::string bytes, cudaStream_t on) {
    std::size_t const room = (bytes.size() + alignment - 1) / alignment * alignment;
    void* to = nullptr;
    if (room <= left_) {
      left_ -= room;
      to = std::exchange(next_, next_ + room);
    } else {
      check(cudaMalloc(&to, room), "cudaMalloc of constants");
      pieces_.emplace_back(to);
    }
    check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, on),
          "cudaMemcpyAsync of constants");  // has read them when it returns
    copies_.emplace(std::move(bytes), to);
    return to;
  }

 private:
  static constexpr std::size_t alignment = 256, block_bytes = std::size_t{64} << 10;

  struct free {
    void operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }
  };

  std::vector<std::unique_ptr<void, free>> pieces_;
  std::byte* next_ = nullptr;  // in the block
  std::size_t left_ = 0;
  std::unordered_map<std::string, void const*> copies_;
};

}  // namespace parallel::cuda
