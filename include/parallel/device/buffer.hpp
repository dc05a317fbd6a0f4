// buffer: owning, typed, contiguous memory of any device.
//
// Ownership is shared, so that a communication request can keep the memory that it reads and writes
// alive. The deleter of the owner frees the memory in the way of its device.
//
// exchanged_memory: allocation of memory that ranks exchange during its whole life.
//
// A network or another GPU accesses memory in place only if the communication library allocated it.
// So a device can be given a source for such memory. A device without this facility allocates
// ordinary memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <parallel/core/tensor.hpp>

namespace parallel {

template <class T>
class buffer {
 public:
  buffer() = default;
  buffer(std::shared_ptr<void> owner, T* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<T> span() const { return {data_, size_}; }
  [[nodiscard]] vector_view<T> view() const { return {data_, {static_cast<index>(size_)}}; }

  /// The owner of the memory; requests hold a copy to keep the memory alive.
  [[nodiscard]] std::shared_ptr<void> const& owner() const { return owner_; }

 private:
  std::shared_ptr<void> owner_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The source from which a device takes exchanged memory.
struct memory_source {
  /// Allocates memory of the current device, aligned as the device aligns; `bytes` is at least 1.
  /// Returns null if there is not enough.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  /// Buffers for smaller exchanges are ordinary memory of the device.
  std::size_t min_bytes = 0;
};

/// Zeroed memory for `count` elements. The largest buffer that takes part in their exchanges has
/// `exchanged_count` elements. Both numbers must be equal on all ranks that exchange.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count,
                                           std::size_t exchanged_count) {
  if constexpr (requires { device.template allocate_exchanged<T>(count, exchanged_count); })
    return device.template allocate_exchanged<T>(count, exchanged_count);
  else
    return device.template allocate_zeroed<T>(count);
}

/// Zeroed memory for `count` elements that are exchanged with buffers of the same size.
template <class T, class Device>
[[nodiscard]] buffer<T> allocate_exchanged(Device& device, std::size_t count) {
  return allocate_exchanged<T>(device, count, count);
}

}  // namespace parallel
