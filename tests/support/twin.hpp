// twin: an array in two copies: in double for the reference, and in a device's memory between two
// guard regions. `both_sides` runs the same operation on both copies, whose results are compared.
//
// The inputs of both sides are the same numbers, already rounded to the device's element type. The
// results differ by the rounding of the operation alone, which gives the bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/device/buffer.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"

namespace test {

using ops_support::unit;
using parallel::accumulate_t;
using parallel::index;
using parallel::matrix_view;
using parallel::vector_view;

/// The element type of the reference for a device's T: double, or T itself for integers.
template <class T>
using wide_t = std::conditional_t<std::is_integral_v<T>, T, double>;

template <class T, class Device>
class twin {
 public:
  /// `offset`: the device's first element is that many elements after an address aligned to 128
  /// bytes.
  twin(Device const& device, std::vector<T> const& values, std::size_t offset)
      : device_(&device),
        size_(values.size()),
        first_(margin + offset),
        memory_(device.template allocate<T>(size_ + 2 * margin + offset)) {
    for (T const value : values) reference_.push_back(static_cast<wide_t<T>>(value));
    std::vector<T> content(memory_.size());
    std::memset(static_cast<void*>(content.data()), 0xff, content.size() * sizeof(T));
    std::copy(values.begin(), values.end(), content.begin() + static_cast<std::ptrdiff_t>(first_));
    device.upload(memory_.span(), std::span<T const>(content));
  }

  [[nodiscard]] index size() const { return static_cast<index>(size_); }

  /// The copy that operations of this stream use.
  [[nodiscard]] wide_t<T>* data_for(parallel::reference::stream const&) {
    return reference_.data();
  }
  template <class Stream>
  [[nodiscard]] T* data_for(Stream const&) {
    return memory_.data() + first_;
  }

  /// The values of the reference.
  [[nodiscard]] std::vector<wide_t<T>> const& expected() const { return reference_; }

  /// The values of the device; checks that the guard regions are unchanged.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> content(memory_.size());
    device_->download(std::span(content), std::span<T const>(memory_.span()));
    auto const begin = content.begin() + static_cast<std::ptrdiff_t>(first_);
    auto const end = begin + static_cast<std::ptrdiff_t>(size_);
    auto const are_marked = [](auto first, auto last) {
      return std::all_of(first, last, [](T const& value) {
        unsigned char bytes[sizeof(T)];
        std::memcpy(bytes, &value, sizeof(T));
        return std::all_of(std::begin(bytes), std::end(bytes),
                           [](unsigned char byte) { return byte == 0xff; });
      });
    };
    CHECK(are_marked(content.begin(), begin));
    CHECK(are_marked(end, content.end()));
    return {begin, end};
  }

 private:
  static constexpr std::size_t margin = 128;

  Device const* device_;
  std::size_t size_;
  std::size_t first_;
  parallel::buffer<T> memory_;
  std::vector<wide_t<T>> reference_;
};

/// The reference and a device, which run the same operations.
template <class Device>
class both_sides {
 public:
  /// `offset` is explained at twin. Random numbers depend on `seed`.
  both_sides(Device& device, std::uint64_t seed, std::size_t offset)
      : device_(&device), stream_(device.compute_options()), seed_(seed), offset_(offset) {}

  template <class T>
  [[nodiscard]] twin<T, Device> twin_of(std::vector<T> const& values) const {
    return {*device_, values, offset_};
  }
  template <class T>
  [[nodiscard]] twin<T, Device> random(index count, double deviation = 1.0) {
    return twin_of(ops_support::random<T>(count, ++seed_, deviation));
  }
  [[nodiscard]] twin<std::int32_t, Device> random_ids(index count, index limit) {
    return twin_of(ops_support::random_ids(count, static_cast<std::int32_t>(limit), ++seed_));
  }
  /// Bytes of 0xff, which are NaN for floating types: an element that is not written is detected.
  template <class T>
  [[nodiscard]] twin<T, Device> poisoned(index count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    std::memset(static_cast<void*>(values.data()), 0xff, values.size() * sizeof(T));
    return twin_of(values);
  }

  /// Runs operation(stream) on both, to the end.
  template <class Operation>
  void run(Operation const& operation) {
    parallel::reference::stream reference;
    operation(reference);
    run_on_device(operation);
  }

  /// Runs operation(stream) on the device alone, to the end.
  template <class Operation>
  void run_on_device(Operation const& operation) {
    operation(stream_);
    stream_.synchronize();
  }

  [[nodiscard]] std::uint64_t next_seed() { return ++seed_; }

 private:
  Device* device_;
  typename Device::stream_type stream_;
  std::uint64_t seed_;
  std::size_t offset_;
};

/// A random seed, a new one for each run.
[[nodiscard]] inline std::uint64_t fresh_seed() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 20U) & 0xfffffffffff00000ULL;
}

template <class Stream, class Twin>
[[nodiscard]] auto elements(Stream const& s, Twin& array) {
  return std::span(array.data_for(s), static_cast<std::size_t>(array.size()));
}
template <class Stream, class Twin>
[[nodiscard]] auto as_vector(Stream const& s, Twin& array) {
  using element = std::remove_pointer_t<decltype(array.data_for(s))>;
  return vector_view<element>(array.data_for(s), {array.size()});
}
template <class Stream, class Twin>
[[nodiscard]] auto as_matrix(Stream const& s, Twin& array, index rows, index columns) {
  using element = std::remove_pointer_t<decltype(array.data_for(s))>;
  return matrix_view<element>(array.data_for(s), {rows, columns});
}

/// |got - expected| <= relative |expected| + absolute, and NaN where NaN is expected.
template <class T, class Device>
void check_near(twin<T, Device> const& array, double absolute, double relative = 2.0 * unit<T>) {
  CHECK(ops_support::excess(array.values(), array.expected(), relative) <= absolute);
}
/// |got - expected| <= share of the greatest |expected|.
template <class T, class Device>
void check_close(twin<T, Device> const& array, double share) {
  double largest = 0.0;
  for (double const value : array.expected()) largest = std::max(largest, std::abs(value));
  CHECK(ops_support::excess(array.values(), array.expected(), 0.0) <= share * largest);
}
/// got == expected, as numbers.
template <class T, class Device>
void check_equal(twin<T, Device> const& array) {
  CHECK(ops_support::excess(array.values(), array.expected(), 0.0) == 0.0);
}
/// got == expected, as 64-bit integers, which double cannot hold.
template <class Device>
void check_equal(twin<std::uint64_t, Device> const& array) {
  CHECK(array.values() == array.expected());
}

}  // namespace test
