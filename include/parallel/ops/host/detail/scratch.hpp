// scratch: memory that one thread uses during one operation, taken from its stream's workspace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include <parallel/core/tensor.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/device/host/workspace.hpp>
#include <parallel/ops/host/parallel_for.hpp>

namespace parallel::host::detail {

/// `count` uninitialised elements, aligned to cache lines; reading 64 bytes beyond the end is
/// allowed.
template <class T>
class scratch {
 public:
  scratch(arena& from, index count)
      : data_(from.allocate<std::byte, 1>({count * static_cast<index>(sizeof(T)) + 64}).data()) {}

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(data_); }

 private:
  std::byte* data_;
};

/// `count` uninitialised elements that begin at the start of `memory`, for an operation that needs
/// no other scratch.
template <class T>
[[nodiscard]] T* scratch_array(workspace& memory, index count) {
  return reinterpret_cast<T*>(memory.take(static_cast<std::size_t>(count) * sizeof(T)));
}

/// The bytes that one Space(arena&, sizes...) takes from its arena.
template <class Space, class... Sizes>
[[nodiscard]] std::size_t bytes_of_space(Sizes... sizes) {
  arena measured;
  static_cast<void>(Space(measured, sizes...));
  return measured.peak();
}

/// Runs body(task, space) for tasks [0, count) on up to `threads` threads, with one Space(arena&,
/// sizes...) per thread. The spaces are made at `memory`, which must have room for all of them. Any
/// thread may get any task.
template <class Space, class Body, class... Sizes>
void with_scratch_at(std::byte* memory, int threads, index count, Body const& body,
                     Sizes... sizes) {
  std::size_t const bytes = bytes_of_space<Space>(sizes...);
  index const spaces = std::min<index>(std::max(threads, 1), count);
  std::atomic<index> next = 0;
  parallel_tasks(threads, spaces, [&](index thread) {
    arena thread_arena(
        buffer<std::byte>(nullptr, memory + static_cast<std::size_t>(thread) * bytes, bytes));
    Space space(thread_arena, sizes...);
    for (index task = next++; task < count; task = next++) body(task, space);
  });
}

/// with_scratch_at the start of `memory`, for an operation that needs no other scratch.
template <class Space, class Body, class... Sizes>
void with_scratch(workspace& memory, int threads, index count, Body const& body, Sizes... sizes) {
  auto const spaces = static_cast<std::size_t>(std::min<index>(std::max(threads, 1), count));
  with_scratch_at<Space>(memory.take(bytes_of_space<Space>(sizes...) * spaces), threads, count,
                         body, sizes...);
}

}  // namespace parallel::host::detail
