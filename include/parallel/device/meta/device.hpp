// meta::device: allocates and computes nothing, but counts bytes and floating-point operations.
//
// `dry_run`, the automatic choice of the microbatch and the size of the activation arena come from
// running the same training step on the meta device. Pointers are null. Every operation has an
// overload for the meta stream that only adds to the counters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include <parallel/device/buffer.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/meta/memory_access.hpp>

namespace parallel::meta {

struct stream_options {
  /// The planned streams are deterministic: every operation gives the same bits in every run.
  bool deterministic = false;
};

/// Counts the floating-point operations that its operations would execute on a real device, and the
/// scratch memory that they would need on a GPU.
class stream {
 public:
  using event_type = reached_event;

  explicit stream(stream_options options = {}) : options_(options) {}

  template <class Task>
  void enqueue(Task&&) {}
  [[nodiscard]] reached_event record() { return {}; }
  void wait(reached_event) {}
  void synchronize() {}

  /// Called by an operation. `operation` is the same name as the label of its tasks on a host
  /// stream.
  void count(std::uint64_t floating_point_operations,
             char const* operation = __builtin_FUNCTION()) {
    operations_ += floating_point_operations;
    by_name_[operation] += floating_point_operations;
  }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

  /// Called by an operation: bytes of scratch that it needs on a GPU.
  void need_scratch(std::size_t bytes) { scratch_ = std::max(scratch_, bytes); }
  /// The largest need_scratch() since the last call of take_scratch().
  [[nodiscard]] std::size_t take_scratch() { return std::exchange(scratch_, 0); }
  [[nodiscard]] stream_options const& options() const { return options_; }

  /// Called by an operation with the views that it reads and writes, and with `updates(view)` for a
  /// view that it adds to. The observer does not see an operation that does not call this.
  template <class... Views>
  void touch(Views const&... views) {
    observe("", 0, views...);
  }
  /// The same, with the operation's name and its floating-point operations.
  template <class... Views>
  void observe(std::string_view name, std::uint64_t flops, Views const&... views) {
    if (observer_ == nullptr) return;
    memory_access const accesses[] = {access_of(views)...};
    observer_->operation({name, flops, accesses});
  }
  /// Called by an exchange along an axis of the mesh.
  template <class Out, class In>
  void exchange(std::string_view axis, exchange_kind kind, Out const& out, In const& in) {
    if (observer_ != nullptr) observer_->exchange(axis, kind, access_of(out), access_of(in));
  }
  void note_random_numbers(std::uint32_t operation) {
    if (observer_ != nullptr) observer_->random_numbers(operation);
  }
  /// Reports later operations and exchanges to `observer`; null: reports to none.
  void set_observer(access_observer* observer) { observer_ = observer; }

  /// Called by an exchange along an axis of the mesh: adds the bytes that this rank would send.
  /// `is_shift`: to one other rank, while later operations may run.
  void count_traffic(std::string_view axis, std::uint64_t bytes, bool is_shift = false) {
    exchanges_[axis] += bytes;
    if (observer_ != nullptr) observer_->traffic(axis, bytes, is_shift);
  }
  [[nodiscard]] std::map<std::string_view, std::uint64_t> const& exchanges() const {
    return exchanges_;
  }

  [[nodiscard]] std::map<std::string_view, std::uint64_t> const& operations_by_name() const {
    return by_name_;
  }

 private:
  stream_options options_;
  access_observer* observer_ = nullptr;
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

  /// Memory of the host. It is not counted.
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    return {nullptr, nullptr, count};
  }

  /// Bytes of all allocations so far.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace parallel::meta
