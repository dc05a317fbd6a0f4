// host::device: a CPU as seen by the library: memory and streams.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

#include <parallel/device/buffer.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::host {

class device {
 public:
  using stream_type = stream;
  using event_type = event;

  device() = default;
  explicit device(stream_options compute) : compute_(std::move(compute)) {}

  /// Uninitialised memory for `count` elements, aligned to 64 bytes (a cache line, an AVX-512
  /// register). Throws `error` when the system refuses.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    require(count <= static_cast<std::size_t>(-1) / 2 / sizeof(T), "out of memory: ", count,
            " elements of ", sizeof(T), " bytes are more than any machine has");
    constexpr std::align_val_t alignment{64};
    std::size_t const bytes = std::max<std::size_t>(1, count * sizeof(T));
    void* const data = ::operator new(bytes, alignment, std::nothrow);
    require(data != nullptr, "out of memory: the host could not provide ", bytes, " bytes");
    std::shared_ptr<void> owner(data, [](void* p) { ::operator delete (p, std::align_val_t{64}); });
    return {std::move(owner), static_cast<T*>(data), count};
  }

  /// Zeroed memory.
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    auto memory = allocate<T>(count);
    std::memset(static_cast<void*>(memory.data()), 0, count * sizeof(T));
    return memory;
  }

  /// Options for this device's compute streams (threads, cores, engine).
  [[nodiscard]] stream_options const& compute_options() const { return compute_; }

 private:
  stream_options compute_;
};

}  // namespace parallel::host
