// host::workspace: temporary memory for the operations of one stream.
//
// A stream runs one task at a time, so one block of memory serves all of them in turn. It grows to
// the largest request and stays allocated, so that a training step allocates nothing from the
// system.
#pragma once

#include <cstddef>
#include <new>

#include <parallel/device/host/large_pages.hpp>

namespace parallel::host {

class workspace {
 public:
  static constexpr std::size_t alignment = 64;

  workspace() = default;
  workspace(workspace&&) = delete;
  ~workspace() { free(); }

  /// At least `bytes`, uninitialised and aligned to cache lines, valid until the next call. For the
  /// running task and its helper threads.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    if (bytes > size_) {
      free();
      data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}));
      prefer_large_pages(data_, bytes);
      size_ = bytes;
    }
    return data_;
  }

  /// The size of the block in bytes.
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void free() {
    ::operator delete (data_, std::align_val_t{alignment});
    data_ = nullptr;
    size_ = 0;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace parallel::host
