// The meta device: allocates and computes nothing, but counts bytes and floating-point operations.
//
// `dry_run`, the automatic microbatch and the size of the activation arena come from running the
// very same training step on it. Pointers are null; every operation has a meta overload that only
// adds to the counters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include <parallel/device/buffer.hpp>
#include <parallel/device/meta/touched.hpp>
#include <parallel/device/reached.hpp>

namespace parallel::meta {

struct stream_options {
  /// Of the streams that are planned: every operation gives the same bits in every run.
  bool deterministic = false;
};

/// Counts the floating-point operations that operations on it would have executed, and the scratch
/// memory that they would have taken on a GPU.
class stream {
 public:
  using event_type = reached;

  explicit stream(stream_options options = {}) : options_(options) {}

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

  /// Called by an operation: bytes of scratch that it needs on a GPU.
  void need_scratch(std::size_t bytes) { scratch_ = std::max(scratch_, bytes); }
  /// The most that one operation needed since this was asked last.
  [[nodiscard]] std::size_t take_scratch() { return std::exchange(scratch_, 0); }
  [[nodiscard]] stream_options const& options() const { return options_; }

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
  stream_options options_;
  witness* witness_ = nullptr;
  std::size_t scratch_ = 0;
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
