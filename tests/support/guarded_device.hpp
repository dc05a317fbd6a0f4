// guarded::device: a device whose memory the host cannot reach, on a machine without one.
//
// Its memory is mapped without any right to read or write; an operation, an exchange, an upload or
// a download opens it while it runs. A program that looks into it by itself dies of SIGSEGV, as it
// would with a GPU's. Its compute stream waits as cuda::stream does: for what happens on another
// stream, the caller is held up.
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
#include <parallel/comm/detail/moving.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/meta/touched.hpp>
#include <parallel/ops/host.hpp>

namespace guarded {

using parallel::buffer;

/// Memory of which pieces are given out, each another's until none is held any more.
class memory {
 public:
  explicit memory(std::size_t bytes) : size_(bytes) {
    base_ = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    parallel::require(base_ != MAP_FAILED, "cannot map ", bytes, " bytes");
  }
  ~memory() { ::munmap(base_, size_); }
  memory(memory const&) = delete;
  memory& operator=(memory const&) = delete;

  /// Zeroed. With the last one held all of it is taken back: what is open and closed is then
  /// little.
  [[nodiscard]] static std::shared_ptr<void> take(std::shared_ptr<memory> const& of,
                                                  std::size_t bytes) {
    std::scoped_lock const lock(of->mutex_);
    parallel::require(of->used_ + bytes <= of->size_, "the guarded memory is too small");
    void* const out = static_cast<std::byte*>(of->base_) + of->used_;
    of->used_ += (bytes + 63) / 64 * 64;
    ++of->held_;
    return {out, [of](void*) { of->give_back(); }};
  }

  void open() {
    std::scoped_lock const lock(mutex_);
    if (users_++ == 0) ::mprotect(base_, size_, PROT_READ | PROT_WRITE);
  }
  void close() {
    std::scoped_lock const lock(mutex_);
    if (--users_ == 0) ::mprotect(base_, size_, PROT_NONE);
  }

  /// Told of what operations write, when they are enqueued; what it enqueues finds the memory open.
  std::function<void(parallel::host::stream&, std::string_view operation,
                     parallel::meta::touched const& written)>
      after_operation;

  /// Opens it for a scope.
  class opened {
   public:
    explicit opened(memory& of) : of_(of) { of_.open(); }
    ~opened() { of_.close(); }
    opened(opened const&) = delete;
    opened& operator=(opened const&) = delete;

   private:
    memory& of_;
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

/// Operations on it find the memory open.
class stream : public parallel::host::stream {
 public:
  explicit stream(shared_memory of) : memory_(std::move(of)) {}
  stream(shared_memory of, parallel::host::stream_options options)
      : parallel::host::stream(std::move(options)), memory_(std::move(of)) {}

  template <class Event>
  void wait(Event mark) {
    mark.wait();
  }

  /// Enqueues what `work(host stream)` enqueues.
  template <class Work>
  void guard(Work&& work) {
    enqueue([of = memory_] { of->open(); });
    work(static_cast<parallel::host::stream&>(*this));
    enqueue([of = memory_] { of->close(); });
  }
  [[nodiscard]] guarded::memory const& of() const { return *memory_; }

 private:
  shared_memory memory_;
};

/// Exchanges reach it too.
class mover final : public parallel::data_mover {
 public:
  explicit mover(shared_memory of) : memory_(std::move(of)) {}
  void copy(void* to, void const* from, std::size_t bytes) override {
    memory::opened const now(*memory_);
    std::memcpy(to, from, bytes);
  }
  void combine(parallel::dtype type, parallel::reduction how, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) override {
    memory::opened const now(*memory_);
    parallel::detail::combine(type, how, outs, sources, count);
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

/// Holds up nobody: it is a stream of the host.
class comm_stream : private owns_mover, public stream {
 public:
  explicit comm_stream(shared_memory of)
      : owns_mover{guarded::mover(of)}, stream(of, {.mover = &moving}) {}

  template <class Event>
  void wait(Event mark) {
    parallel::host::stream::wait(std::move(mark));
  }
};

/// Ranks that share one, as threads share a GPU, share its memory.
class device {
 public:
  using stream_type = stream;
  static constexpr bool host_reaches_memory = false;

  explicit device(shared_memory of) : memory_(std::move(of)) {}
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
  void upload(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    memory::opened const now(*memory_);
    parallel::require(to.size() == from.size(), "a copy of another size");
    std::copy(from.begin(), from.end(), to.begin());
  }
  template <class T>
  void download(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    upload(to, from);
  }
  [[nodiscard]] std::size_t available_bytes() const { return 0; }
  [[nodiscard]] shared_memory compute_options() const { return memory_; }

 private:
  shared_memory memory_;
};

/// Every operation of the host, with the memory open.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  s.guard([&](parallel::host::stream& on) {
    run_operation(on, a);
    if constexpr (requires { a.operands(); }) {
      auto const& after = s.of().after_operation;
      if (!after) return;
      auto const tell = [&](parallel::meta::touched const& operand) {
        if (operand.writes) after(on, a.name, operand);
      };
      std::apply([&](auto const&... views) { (tell(parallel::meta::touch_of(views)), ...); },
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
