// guarded: an array for a kernel to write to, which begins `offset` elements after an address
// aligned to 16 bytes and lies between two guard regions; and runs of kernels on such arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/devices/host_block.hpp"

namespace parallel::testing {

template <class T>
class guarded {
 public:
  /// `size` elements whose bytes are all 0xff, which is NaN for floating types.
  guarded(std::size_t size, std::size_t offset)
      : bytes_(sizeof(T) * (size + 32), 0xff), size_(size) {
    auto const misaligned = reinterpret_cast<std::uintptr_t>(bytes_.data()) % 16;
    begin_ = 16 * sizeof(T) - misaligned + offset * sizeof(T);
  }
  guarded(std::span<T const> values, std::size_t offset) : guarded(values.size(), offset) {
    if (!values.empty()) std::memcpy(bytes_.data() + begin_, values.data(), values.size_bytes());
  }
  explicit guarded(std::pair<std::span<T const>, std::size_t> const& values_and_offset)
      : guarded(values_and_offset.first, values_and_offset.second) {}
  guarded(guarded const&) = delete;
  guarded& operator=(guarded const&) = delete;

  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  [[nodiscard]] std::span<T> span() { return {data(), size_}; }
  [[nodiscard]] std::vector<T> values() { return {data(), data() + size_}; }

  /// Whether the guard regions are unchanged.
  [[nodiscard]] bool intact() const {
    auto const marked = [](auto first, auto last) {
      return std::all_of(first, last, [](unsigned char byte) { return byte == 0xff; });
    };
    auto const first = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return marked(bytes_.begin(), first) &&
           marked(first + static_cast<std::ptrdiff_t>(size_ * sizeof(T)), bytes_.end());
  }

 private:
  std::vector<unsigned char> bytes_;
  std::size_t size_;
  std::size_t begin_ = 0;
};

/// Runs the body `make(y)` on aligned and unaligned copies y of `values`, in every order of
/// threads. Each time checks that the guard regions are unchanged, and calls check(y).
template <class T, class Make, class Check>
void run_on_copies(std::vector<T> const& values, unsigned blocks, unsigned threads,
                   std::size_t shared_bytes, Make make, Check const& check) {
  for (std::size_t const offset : {0, 1})
    for (auto const order :
         {thread_order::ascending, thread_order::descending, thread_order::shuffled}) {
      guarded<T> y(values, offset);
      host_block::run_grid(blocks, threads, shared_bytes, order, make(y.data()));
      CHECK(y.intact());
      check(y.values());
    }
}

}  // namespace parallel::testing
