// The meta device: allocates and computes nothing, but counts bytes and floating-point operations.
//
// `dry_run`, the automatic microbatch and the size of the activation arena come from running the
// very same training step on it. Pointers are null; every operation has a meta overload that only
// adds to the counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include <parallel/device/buffer.hpp>
#include <parallel/device/meta/touched.hpp>
#include <parallel/device/reached.hpp>

namespace parallel::meta {

/// Counts the floating-point operations that operations on it would have executed.
class stream {
 public:
  using event_type = reached;

  template <class Task>
  void enqueue(Task&&) {}
  [[nodiscard]] reached record() { return {}; }
  void wait(reached) {}
  void synchronize() {}

  /// Called by an operation, which is named as its tasks are on a host stream.
  void count(std::uint64_t floating_point_operations,
             char const* operation = __builtin_FUNCTION()) {
    operations_ += floating_point_operations;
    by_name_[operation] += floating_point_operations;
  }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

  /// Called by an operation with the views it reads and writes; with `updates(view)` for one that
  /// it adds to. An operation that does not is not looked at.
  template <class... Views>
  void touch(Views const&... views) {
    if (witness_ == nullptr) return;
    touched const all[] = {touch_of(views)...};
    witness_->operation(all);
  }
  /// Called by an exchange along an axis of the mesh.
  template <class Out, class In>
  void exchange(std::string_view axis, exchange_kind kind, Out const& out, In const& in) {
    if (witness_ != nullptr) witness_->exchange(axis, kind, touch_of(out), touch_of(in));
  }
  /// From now on `whom` is told of these; null: nobody.
  void report_to(witness* whom) { witness_ = whom; }

  /// Called by an exchange along an axis of the mesh: bytes that this rank would have sent.
  void count_traffic(std::string_view axis, std::uint64_t bytes) { exchanges_[axis] += bytes; }
  [[nodiscard]] std::map<std::string_view, std::uint64_t> const& exchanges() const {
    return exchanges_;
  }

  [[nodiscard]] std::map<std::string_view, std::uint64_t> const& operations_by_name() const {
    return by_name_;
  }

 private:
  witness* witness_ = nullptr;
  std::uint64_t operations_ = 0;
  std::map<std::string_view, std::uint64_t> by_name_;
  std::map<std::string_view, std::uint64_t> exchanges_;
};

class device {
 public:
  using stream_type = stream;

  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t count) {
    bytes_ += count * sizeof(T);
    return {nullptr, nullptr, count};
  }
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) {
    return allocate<T>(count);
  }

  /// Of the host's memory: not counted.
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    return {nullptr, nullptr, count};
  }

  /// Bytes that were asked for so far.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace parallel::meta
