// host::device: a CPU as seen by the library: memory and streams.
//
// It counts the bytes it gave out, so that what a run uses can be held against what the meta device
// predicts. Copies of a device count together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
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
    usage_->add(count * sizeof(T));
    std::shared_ptr<void> owner(data, [usage = usage_, size = count * sizeof(T)](void* p) {
      ::operator delete (p, std::align_val_t{64});
      usage->live -= size;
    });
    return {std::move(owner), static_cast<T*>(data), count};
  }

  /// Zeroed memory.
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    auto memory = allocate<T>(count);
    std::memset(static_cast<void*>(memory.data()), 0, count * sizeof(T));
    return memory;
  }

  /// Bytes that were asked for and are not freed.
  [[nodiscard]] std::size_t bytes() const { return usage_->live; }
  /// The most bytes there were at once.
  [[nodiscard]] std::size_t peak_bytes() const { return usage_->peak; }

  /// Options for this device's compute streams (threads, cores, engine).
  [[nodiscard]] stream_options const& compute_options() const { return compute_; }

 private:
  struct usage {
    std::atomic<std::size_t> live = 0;
    std::atomic<std::size_t> peak = 0;

    void add(std::size_t bytes) {
      std::size_t const now = live += bytes;
      std::size_t most = peak;
      while (most < now && !peak.compare_exchange_weak(most, now)) {
      }
    }
  };

  stream_options compute_;
  std::shared_ptr<usage> usage_ = std::make_shared<usage>();
};

}  // namespace parallel::host
