// host::device: a CPU with its memory and streams.
//
// It counts the bytes that it has allocated, so that the use of a run can be compared with the
// prediction of the meta device. Copies of a device share their counters.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include <parallel/core/failures.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/host/available_memory.hpp>
#include <parallel/device/host/large_pages.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/usage.hpp>

namespace parallel::host {

class device {
 public:
  using stream_type = stream;
  static constexpr bool host_reaches_memory = true;

  device() = default;
  explicit device(stream_options compute) : compute_(std::move(compute)) {}

  /// Uninitialised memory for `count` elements, aligned to 64 bytes (a cache line, an AVX-512
  /// register). Throws `out_of_memory` if the system has not enough.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t count) const {
    auto* const data = memory_for<T>(count);
    usage_->add(count * sizeof(T));
    std::shared_ptr<void> owner(data, [usage = usage_, size = count * sizeof(T)](void* p) {
      ::operator delete(p, alignment);
      usage->live -= size;
    });
    return {std::move(owner), data, count};
  }

  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    auto memory = allocate<T>(count);
    std::memset(static_cast<void*>(memory.data()), 0, count * sizeof(T));
    return memory;
  }

  /// Zeroed memory that the host and operations on this device both reach. It is not counted.
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    auto* const data = memory_for<T>(count);
    std::memset(static_cast<void*>(data), 0, count * sizeof(T));
    return {std::shared_ptr<void>(data, [](void* p) { ::operator delete(p, alignment); }), data,
            count};
  }

  /// upload and download copy between the host's memory and the device's, and block. Nothing else
  /// may use the memory meanwhile.
  template <class T>
  void upload(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    require(to.size() == from.size(), "a copy of ", from.size(), " elements does not fit ",
            to.size());
    if (!to.empty()) std::memcpy(static_cast<void*>(to.data()), from.data(), to.size_bytes());
  }
  template <class T>
  void download(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    upload(to, from);
  }

  /// Allocated bytes that are not freed.
  [[nodiscard]] std::size_t bytes() const { return usage_->live; }
  /// The maximum of bytes() so far.
  [[nodiscard]] std::size_t peak_bytes() const { return usage_->peak; }

  /// The bytes that this process can still allocate, within the machine's memory and the limits of
  /// its container; 0 if the system does not tell. See available_memory.
  [[nodiscard]] std::size_t available_bytes() const { return available_memory(); }

  /// Options for this device's compute streams (threads, cores, engine).
  [[nodiscard]] stream_options const& compute_options() const { return compute_; }
  /// Options for the streams of exchanges: one thread, on the same cores.
  [[nodiscard]] stream_options comm_options() const {
    return {.threads = 1, .cores = compute_.cores};
  }

 private:
  static constexpr std::align_val_t alignment{64};

  template <class T>
  [[nodiscard]] static T* memory_for(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    require(count <= static_cast<std::size_t>(-1) / 2 / sizeof(T), "out of memory: ", count,
            " elements of ", sizeof(T), " bytes are more than any machine has");
    std::size_t const bytes = std::max<std::size_t>(1, count * sizeof(T));
    void* const data = ::operator new(bytes, alignment, std::nothrow);
    if (data == nullptr)
      fail<out_of_memory>("out of memory: the host could not provide ", bytes, " bytes");
    prefer_large_pages(data, bytes);
    return static_cast<T*>(data);
  }

  stream_options compute_;
  std::shared_ptr<memory_usage> usage_ = std::make_shared<memory_usage>();
};

}  // namespace parallel::host
