// buffer: owning, typed, contiguous memory of any device.
//
// Ownership is shared, so that a communication request can keep the memory that it reads and writes
// alive. The deleter of the owner frees the memory in the way of its device.
#pragma once

#include <cstddef>
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

}  // namespace parallel
