// flipping::device: the host, on which one bit of a gradient flips behind the operation that has
// written it, or of memory while it is summed.
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
#include <parallel/device/meta/touched.hpp>
#include <parallel/ops/host.hpp>

namespace flipping {

/// Of one rank. The calling thread's alone, but for the flip itself.
struct fault {
  /// The parameter whose gradient lies at an address: its number, or -1.
  std::function<int(void const*)> parameter_at = [](void const*) { return -1; };
  /// Whether a bit flips behind this write; `time`: how often the operation wrote the parameter's
  /// gradient before.
  std::function<bool(int parameter, std::string const& operation, int time)> strikes;
  /// Whether a bit of what this `sum` reads is another while it does.
  std::function<bool()> misreads;
  std::uint64_t bit = 0;  // of what was written or read
  int hits = 0;
  std::map<std::pair<int, std::string>, int> times = {};
};

class stream : public parallel::host::stream {
 public:
  explicit stream(std::shared_ptr<fault> of) : fault_(std::move(of)) {}

  template <class Item>
  void run_items(std::ptrdiff_t count, Item const& item) {
    enqueue([count, item] {
      for (std::ptrdiff_t i = 0; i < count; ++i) item(i);
    });
    if constexpr (requires { item.gradient; })
      wrote("items", item.gradient, static_cast<std::size_t>(count) * sizeof *item.gradient);
  }

  void wrote(std::string const& operation, void* at, std::size_t bytes) {
    if (!fault_->strikes || bytes == 0) return;
    if (operation == "fill" || operation == "copy" || operation == "add") return;
    int const parameter = fault_->parameter_at(at);
    if (parameter < 0) return;
    int const time = fault_->times[{parameter, operation}]++;
    if (!fault_->strikes(parameter, operation, time)) return;
    ++fault_->hits;
    flip(at, bytes);
  }
  void flip(void* at, std::size_t bytes) {
    enqueue([byte = static_cast<std::uint8_t*>(at) + fault_->bit / 8 % bytes,
             mask = static_cast<std::uint8_t>(1U << fault_->bit % 8)] { *byte ^= mask; });
  }
  [[nodiscard]] bool misreads() const { return fault_->misreads && fault_->misreads(); }

 private:
  std::shared_ptr<fault> fault_;
};

/// Every operation of the host.
template <parallel::ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  run_operation(static_cast<parallel::host::stream&>(s), a);
  if constexpr (requires { a.operands(); }) {
    auto const look = [&](auto const& view) {
      auto const touched = parallel::meta::touch_of(view);
      if (touched.writes)
        s.wrote(a.name, reinterpret_cast<void*>(touched.begin), touched.end - touched.begin);
    };
    std::apply([&](auto const&... views) { (look(views), ...); }, a.operands());
  }
}

template <class T>
void run_operation(stream& s, parallel::ops::sum_arguments<T> const& a) {
  bool const misread = s.misreads();
  auto* const at = const_cast<T*>(a.x.data());
  if (misread) s.flip(at, a.x.size_bytes());
  run_operation(static_cast<parallel::host::stream&>(s), a);
  if (misread) s.flip(at, a.x.size_bytes());
}

class device : public parallel::host::device {
 public:
  using stream_type = flipping::stream;
  explicit device(std::shared_ptr<fault> of) : fault_(std::move(of)) {}
  [[nodiscard]] std::shared_ptr<fault> compute_options() const { return fault_; }

 private:
  std::shared_ptr<fault> fault_;
};

}  // namespace flipping
