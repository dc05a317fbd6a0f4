// arena: the memory of activations: a bump allocator whose size is planned on the meta device.
//
// Allocation is an addition. Freeing goes back to a mark, in the reverse order of allocation. Work
// on an in-order stream may still read memory that was released: that is safe, because the work
// that uses the memory next runs later on the same stream. Without memory the arena only measures
// (meta device).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

class arena {
 public:
  static constexpr std::size_t alignment = 64;

  /// A measuring arena: null pointers, no limit.
  arena() = default;

  /// An arena over `memory`.
  explicit arena(buffer<std::byte> memory)
      : memory_(std::move(memory)), capacity_(memory_.size()) {}

  /// An arena of addresses from `first` on that are never dereferenced. No address is allocated
  /// twice, not even after a release, so an address always identifies one allocation.
  [[nodiscard]] static arena from_addresses(std::uintptr_t first) {
    arena out({nullptr, reinterpret_cast<std::byte*>(first), std::size_t{1} << 56});
    out.has_unique_addresses_ = true;
    return out;
  }

  /// Uninitialised elements of the given shape. Throws `error` if the arena is too small.
  template <class T, std::size_t N>
  [[nodiscard]] tensor_view<T, N> allocate(shape<N> extents) {
    std::size_t const bytes = static_cast<std::size_t>(volume(extents)) * sizeof(T);
    std::size_t const rounded_bytes = (bytes + alignment - 1) / alignment * alignment;
    std::size_t const begin = has_unique_addresses_ ? total_ : used_;
    used_ += rounded_bytes;
    total_ += rounded_bytes;
    peak_ = used_ > peak_ ? used_ : peak_;
    require(used_ <= capacity_, "the activation arena of ", capacity_,
            " bytes is too small: ", used_,
            " are needed; give it the size that plan_activations returns for these microbatches "
            "(if it has that size, the memory plan is wrong)");
    if (memory_.data() == nullptr) return {nullptr, extents};
    return {reinterpret_cast<T*>(memory_.data() + begin), extents};
  }

  /// An arena over the next `bytes` of this one. Of a measuring arena it is a measuring arena with
  /// that limit.
  [[nodiscard]] arena cut(std::size_t bytes) {
    auto const part = allocate<std::byte, 1>({static_cast<index>(bytes)});
    return arena({memory_.owner(), part.data(), bytes});
  }

  [[nodiscard]] std::size_t mark() const { return used_; }
  void release(std::size_t mark) {
    if (release_observer_ && mark < used_ && memory_.data() != nullptr)
      release_observer_({memory_.data() + mark, used_ - mark});
    used_ = mark;
  }

  /// Calls `observer` with the memory that each later release frees, before it is freed: a check
  /// overwrites that memory, so that a later use of it shows.
  void observe_releases(std::function<void(std::span<std::byte>)> observer) {
    release_observer_ = std::move(observer);
  }

  /// The most bytes that were in use at once: the capacity that a plan must provide.
  [[nodiscard]] std::size_t peak() const { return peak_; }

  /// Its destructor frees everything that was allocated since its construction.
  class scope {
   public:
    explicit scope(arena& owner) : owner_(owner), mark_(owner.mark()) {}
    ~scope() { owner_.release(mark_); }
    scope(scope&&) = delete;

   private:
    arena& owner_;
    std::size_t mark_;
  };

 private:
  buffer<std::byte> memory_;
  std::size_t capacity_ = static_cast<std::size_t>(-1);
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::size_t total_ = 0;  // bytes of all allocations, including released ones
  bool has_unique_addresses_ = false;
  std::function<void(std::span<std::byte>)> release_observer_;
};

}  // namespace parallel
