// host::workspace: memory in which the operations of one stream keep what they need while they run.
//
// A stream runs one task at a time, so one piece of memory serves all of them, one after another.
// It grows to what the largest asked for and stays, so that a training step asks the system for
// nothing.
#pragma once

#include <cstddef>
#include <new>

#include <parallel/device/host/large_pages.hpp>

namespace parallel::host {

class workspace {
 public:
  static constexpr std::size_t alignment = 64;

  workspace() = default;
  workspace(workspace const&) = delete;
  workspace& operator=(workspace const&) = delete;
  ~workspace() { free(); }

  /// At least `bytes`, uninitialised and aligned to cache lines, until it is asked for memory
  /// again. For the task that runs and the threads that help it.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    if (bytes > size_) {
      free();
      data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}));
      prefer_large_pages(data_, bytes);
      size_ = bytes;
    }
    return data_;
  }

  /// What it has grown to.
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
