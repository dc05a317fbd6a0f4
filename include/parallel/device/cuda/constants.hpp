// cuda::constant_memory: a few numbers that stay what they are, such as slopes and frequencies, in
// a GPU's memory.
//
// They are first asked for in the middle of a step, where cudaMalloc must not be called: it may
// wait for exchanges of this rank and, where ranks are threads, of others. So a block is taken
// before, which holds those of any model; only what does not fit there takes memory when it comes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
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
  /// Takes the block, if there is none.
  void reserve() {
    if (blocks_.empty()) take(block_bytes);
  }

  /// The copy of these bytes; null: there is none yet.
  [[nodiscard]] void const* find(std::string const& bytes) const {
    auto const found = copies_.find(bytes);
    return found == copies_.end() ? nullptr : found->second;
  }

  /// Copies them on a stream, behind which they are there.
  [[nodiscard]] void const* add(std::string bytes, cudaStream_t on) {
    std::size_t const room = (bytes.size() + alignment - 1) / alignment * alignment;
    if (room > left_) take(std::max(room, block_bytes));
    left_ -= room;
    void* const to = std::exchange(next_, next_ + room);
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

  void take(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc of constants");
    blocks_.emplace_back(memory);
    next_ = static_cast<std::byte*>(memory);
    left_ = bytes;
  }

  std::vector<std::unique_ptr<void, free>> blocks_;
  std::byte* next_ = nullptr;  // in the last one
  std::size_t left_ = 0;
  std::unordered_map<std::string, void const*> copies_;
};

}  // namespace parallel::cuda
