// guarded::device: imitates a device whose memory the host cannot access, on a machine without a
// GPU.
//
// Its memory is mapped without read or write access; an operation, an exchange, an upload or a
// download opens the memory while it runs. A program that accesses the memory directly ends with
// SIGSEGV, as with memory of a GPU. A compute stream waits as cuda::stream does: a wait for another
// stream's event blocks the caller.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/detail/exchange_mover.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/meta/memory_access.hpp>
#include <parallel/ops/host.hpp>

namespace guarded {

using parallel::buffer;

/// Memory from which pieces are allocated. No piece is reused until all have been released.
class memory {
 public:
  explicit memory(std::size_t bytes) : size_(bytes) {
    base_ = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    parallel::require(base_ != MAP_FAILED, "cannot map ", bytes, " bytes");
  }
  ~memory() { ::munmap(base_, size_); }
  memory(memory const&) = delete;
  memory& operator=(memory const&) = delete;

  /// Allocates a zeroed piece. When the last piece is released, all of the memory is reclaimed, so
  /// that the range to open and close stays small.
  [[nodiscard]] static std::shared_ptr<void> take(std::shared_ptr<memory> const& owner,
                                                  std::size_t bytes) {
    std::scoped_lock const lock(owner->mutex_);
    parallel::require(owner->used_ + bytes <= owner->size_, "the guarded memory is too small");
    void* const out = static_cast<std::byte*>(owner->base_) + owner->used_;
    owner->used_ += (bytes + 63) / 64 * 64;
    ++owner->held_;
    return {out, [owner](void*) { owner->give_back(); }};
  }

  void open() {
    std::scoped_lock const lock(mutex_);
    if (users_++ == 0) ::mprotect(base_, size_, PROT_READ | PROT_WRITE);
  }
  void close() {
    std::scoped_lock const lock(mutex_);
    if (--users_ == 0) ::mprotect(base_, size_, PROT_NONE);
  }

  /// Called for each range that an enqueued operation writes. The memory is open for work that the
  /// function enqueues.
  std::function<void(parallel::host::stream&, std::string_view operation,
                     parallel::meta::memory_access const& written)>
      after_operation;

  /// Opens the memory for a scope.
  class access {
   public:
    explicit access(memory& guarded) : guarded_(guarded) { guarded_.open(); }
    ~access() { guarded_.close(); }
    access(access const&) = delete;
    access& operator=(access const&) = delete;

   private:
    memory& guarded_;
  };

 private:
  void give_back() {
    std::scoped_lock const lock(mutex_);
    if (--held_ > 0) return;
    ::madvise(base_, used_, MADV_DONTNEED);
    used_ = 0;
  }

  std::size_t size_;
  void* base_ = nullptr;
  std::mutex mutex_;
  std::size_t used_ = 0;
  int held_ = 0;
  int users_ = 0;
};

using shared_memory = std::shared_ptr<memory>;

/// A stream that opens the memory for its operations.
class stream : public parallel::host::stream {
 public:
  explicit stream(shared_memory shared) : memory_(std::move(shared)) {}
  stream(shared_memory shared, parallel::host::stream_options options)
      : parallel::host::stream(std::move(options)), memory_(std::move(shared)) {}

  template <class Event>
  void wait(Event mark) {
    mark.wait();
  }

  /// Calls work(host stream), whose enqueued operations find the memory open.
  template <class Work>
  void guard(Work&& work) {
    enqueue([shared = memory_] { shared->open(); });
    work(static_cast<parallel::host::stream&>(*this));
    enqueue([shared = memory_] { shared->close(); });
  }
  [[nodiscard]] guarded::memory const& memory_pool() const { return *memory_; }

 private:
  shared_memory memory_;
};

/// Opens the memory for exchanges.
class mover final : public parallel::data_mover {
 public:
  explicit mover(shared_memory shared) : memory_(std::move(shared)) {}
  void copy(void* destination, void const* source, std::size_t bytes) override {
    memory::access const access(*memory_);
    std::memcpy(destination, source, bytes);
  }
  void combine(parallel::dtype type, parallel::reduction reduction, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) override {
    memory::access const access(*memory_);
    parallel::detail::combine(type, reduction, outs, sources, count);
  }
  std::byte* staging(std::size_t bytes) override {
    if (bytes > staging_.size()) staging_.resize(bytes);
    return staging_.data();
  }
  void finish() override {}

 private:
  shared_memory memory_;
  std::vector<std::byte> staging_;
};

struct owns_mover {
  guarded::mover moving;
};

/// A stream for exchanges. It is a stream of the host, so its waits block no caller.
class comm_stream : private owns_mover, public stream {
 public:
  explicit comm_stream(shared_memory shared)
      : owns_mover{guarded::mover(shared)}, stream(shared, {.mover = &moving}) {}

  template <class Event>
  void wait(Event mark) {
    parallel::host::stream::wait(std::move(mark));
  }
};

/// Ranks that share a device, as threads share a GPU, share its memory.
class device {
 public:
  using stream_type = stream;
  static constexpr bool host_reaches_memory = false;

  explicit device(shared_memory shared) : memory_(std::move(shared)) {}
  explicit device(std::size_t bytes) : memory_(std::make_shared<memory>(bytes)) {}

  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t count) const {
    auto piece = memory::take(memory_, count * sizeof(T));
    auto* const data = static_cast<T*>(piece.get());
    return {std::move(piece), data, count};
  }
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    return allocate<T>(count);
  }
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    std::shared_ptr<T[]> owner(new T[count]());
    auto* const data = owner.get();
    return {std::move(owner), data, count};
  }
  template <class T>
  void upload(std::span<T> destination, std::type_identity_t<std::span<T const>> source) const {
    memory::access const access(*memory_);
    parallel::require(destination.size() == source.size(), "a copy of another size");
    std::copy(source.begin(), source.end(), destination.begin());
  }
  template <class T>
  void download(std::span<T> destination, std::type_identity_t<std::span<T const>> source) const {
    upload(destination, source);
  }
  [[nodiscard]] std::size_t available_bytes() const { return 0; }
  [[nodiscard]] shared_memory compute_options() const { return memory_; }

 private:
  shared_memory memory_;
};

/// Runs every operation of the host with the memory open.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  s.guard([&](parallel::host::stream& host_stream) {
    run_operation(host_stream, a);
    if constexpr (requires { a.operands(); }) {
      auto const& callback = s.memory_pool().after_operation;
      if (!callback) return;
      auto const report = [&](parallel::meta::memory_access const& operand) {
        if (operand.writes) callback(host_stream, a.name, operand);
      };
      std::apply([&](auto const&... views) { (report(parallel::meta::access_of(views)), ...); },
                 a.operands());
    }
  });
}

}  // namespace guarded

namespace parallel {
template <>
struct comm_stream_of<guarded::device, host::stream> {
  using type = guarded::comm_stream;
  [[nodiscard]] static guarded::shared_memory options(guarded::device const& device) {
    return device.compute_options();
  }
};
}  // namespace parallel
