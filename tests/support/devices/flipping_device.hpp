// flipping::device: a host device that injects faults. One bit flips in a gradient after an
// operation has written it, or in memory while a sum reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <parallel/device/host/device.hpp>
#include <parallel/device/meta/memory_access.hpp>
#include <parallel/ops/host.hpp>

namespace flipping {

/// The faults that are injected on one rank, and their counts. Only the thread that enqueues uses
/// them; the flip itself runs on the stream.
struct fault {
  /// The number of the parameter whose gradient is at an address, or -1.
  std::function<int(void const*)> parameter_at = [](void const*) { return -1; };
  /// Whether a bit flips after this write. `write` counts the writes of the parameter's gradient by
  /// the operation, from 0.
  std::function<bool(int parameter, std::string const& operation, int write)> strikes;
  /// Whether the next `sum` operation reads its input with one bit flipped.
  std::function<bool()> misreads;
  std::uint64_t bit = 0;  // position in the written or read memory
  int flips = 0;          // flips after writes so far
  /// The number of writes so far, by parameter and operation.
  std::map<std::pair<int, std::string>, int> write_counts = {};
};

/// A host stream that flips a bit after a write that the fault strikes.
class stream : public parallel::host::stream {
 public:
  explicit stream(std::shared_ptr<fault> fault_of_rank) : fault_(std::move(fault_of_rank)) {}

  template <class Item>
  void run_items(std::ptrdiff_t count, Item const& item) {
    enqueue([count, item] {
      for (std::ptrdiff_t i = 0; i < count; ++i) item(i);
    });
    if constexpr (requires { item.gradient; })
      record_write("items", item.gradient, static_cast<std::size_t>(count) * sizeof *item.gradient);
  }

  void record_write(std::string const& operation, void* address, std::size_t bytes) {
    if (!fault_->strikes || bytes == 0) return;
    if (operation == "fill" || operation == "copy" || operation == "add") return;
    int const parameter = fault_->parameter_at(address);
    if (parameter < 0) return;
    int const write = fault_->write_counts[{parameter, operation}]++;
    if (!fault_->strikes(parameter, operation, write)) return;
    ++fault_->flips;
    flip(address, bytes);
  }
  void flip(void* address, std::size_t bytes) {
    enqueue([byte = static_cast<std::uint8_t*>(address) + fault_->bit / 8 % bytes,
             mask = static_cast<std::uint8_t>(1U << fault_->bit % 8)] { *byte ^= mask; });
  }
  [[nodiscard]] bool misreads() const { return fault_->misreads && fault_->misreads(); }

 private:
  std::shared_ptr<fault> fault_;
};

/// Runs every operation as the host does, then applies the fault to its results.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  run_operation(static_cast<parallel::host::stream&>(s), a);
  if constexpr (requires { a.operands(); }) {
    auto const record = [&](auto const& view) {
      auto const access = parallel::meta::access_of(view);
      if (access.writes)
        s.record_write(a.name, reinterpret_cast<void*>(access.begin), access.end - access.begin);
    };
    std::apply([&](auto const&... views) { (record(views), ...); }, a.operands());
  }
}

/// Runs a sum as the host does. If it is to misread, one bit of its input is flipped before the sum
/// and flipped back after it.
template <class T>
void run_operation(stream& s, parallel::ops::sum_arguments<T> const& a) {
  bool const misread = s.misreads();
  auto* const address = const_cast<T*>(a.x.data());
  if (misread) s.flip(address, a.x.size_bytes());
  run_operation(static_cast<parallel::host::stream&>(s), a);
  if (misread) s.flip(address, a.x.size_bytes());
}

class device : public parallel::host::device {
 public:
  using stream_type = flipping::stream;
  explicit device(std::shared_ptr<fault> fault_of_rank) : fault_(std::move(fault_of_rank)) {}
  [[nodiscard]] std::shared_ptr<fault> compute_options() const { return fault_; }

 private:
  std::shared_ptr<fault> fault_;
};

}  // namespace flipping
