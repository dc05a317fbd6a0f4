// CUB's radix sort on the fake CUDA runtime: the one overload that the library calls.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "fake_cuda/runtime.hpp"

namespace cub {

struct DeviceRadixSort {
  /// Sorts by bits [first_bit, end_bit) of the keys; the sort is stable. When `memory` is null,
  /// only sets `bytes` to the size that the sort needs.
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* memory, std::size_t& bytes, Key const* keys, Key* sorted_keys,
                               Value const* values, Value* sorted_values, Count count,
                               int first_bit, int end_bit, cudaStream_t stream) {
    auto const size = static_cast<std::size_t>(count);
    std::size_t const needed = std::max<std::size_t>(1, size * sizeof(std::uint32_t));
    if (memory == nullptr) return bytes = needed, cudaSuccess;
    if (bytes < needed) return cudaErrorInvalidValue;
    return fake_cuda::enqueue(stream, "a sort", [=, device = fake_cuda::device_of(stream)] {
      fake_cuda::require_access(device, memory, needed, "the sort's own memory");
      fake_cuda::require_access(device, keys, size * sizeof(Key), "the array of keys");
      fake_cuda::require_access(device, sorted_keys, size * sizeof(Key), "that of sorted keys");
      fake_cuda::require_access(device, values, size * sizeof(Value), "the array of values");
      fake_cuda::require_access(device, sorted_values, size * sizeof(Value), "that of sorted ones");
      auto* const order = static_cast<std::uint32_t*>(memory);
      std::iota(order, order + size, 0U);
      auto const key = [=](std::uint32_t i) {
        return (static_cast<std::uint64_t>(keys[i]) & ((std::uint64_t{1} << end_bit) - 1)) >>
               first_bit;
      };
      std::stable_sort(order, order + size, [&](auto i, auto j) { return key(i) < key(j); });
      for (std::size_t i = 0; i < size; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
