// twin: an array in two places: in double where the reference computes, and in a device's memory
// between two marks. And the same operation run on both sides, for results to be compared.
//
// The inputs of both sides are the same numbers, already rounded to the device's element type; so
// what differs is the operation's own rounding, and its bound follows from that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
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

/// In what the reference computes for a device's T: double, or T itself for integers.
template <class T>
using wide_t = std::conditional_t<std::is_integral_v<T>, T, double>;

template <class T, class Device>
class twin {
 public:
  /// `offset`: elements from an address aligned to 128 bytes to the first one of the device's.
  twin(Device const& device, std::vector<T> const& values, std::size_t offset)
      : device_(&device),
        size_(values.size()),
        first_(margin + offset),
        memory_(device.template allocate<T>(size_ + 2 * margin + offset)) {
    for (T const value : values) reference_.push_back(static_cast<wide_t<T>>(value));
    std::vector<T> all(memory_.size());
    std::memset(static_cast<void*>(all.data()), 0xff, all.size() * sizeof(T));
    std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(first_));
    device.upload(memory_.span(), std::span<T const>(all));
  }

  [[nodiscard]] index size() const { return static_cast<index>(size_); }

  /// Where the operations of a stream find it.
  [[nodiscard]] wide_t<T>* on(parallel::reference::stream const&) { return reference_.data(); }
  template <class Stream>
  [[nodiscard]] T* on(Stream const&) {
    return memory_.data() + first_;
  }

  /// What the reference has made of it.
  [[nodiscard]] std::vector<wide_t<T>> const& expected() const { return reference_; }

  /// What the device has; checks that it wrote nothing beside.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> all(memory_.size());
    device_->download(std::span(all), std::span<T const>(memory_.span()));
    auto const begin = all.begin() + static_cast<std::ptrdiff_t>(first_);
    auto const end = begin + static_cast<std::ptrdiff_t>(size_);
    auto const marked = [](auto from, auto to) {
      return std::all_of(from, to, [](T const& value) {
        unsigned char bytes[sizeof(T)];
        std::memcpy(bytes, &value, sizeof(T));
        return std::all_of(std::begin(bytes), std::end(bytes),
                           [](unsigned char byte) { return byte == 0xff; });
      });
    };
    CHECK(marked(all.begin(), begin));
    CHECK(marked(end, all.end()));
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

/// The reference and a device, given the same work.
template <class Device>
class both_sides {
 public:
  /// Of `offset` see twin. Random numbers depend on `seed`.
  both_sides(Device& device, std::uint64_t seed, std::size_t offset)
      : device_(&device), stream_(device.compute_options()), seed_(seed), offset_(offset) {}

  template <class T>
  [[nodiscard]] twin<T, Device> of(std::vector<T> const& values) const {
    return {*device_, values, offset_};
  }
  template <class T>
  [[nodiscard]] twin<T, Device> random(index count, double deviation = 1.0) {
    return of(ops_support::random<T>(count, ++seed_, deviation));
  }
  [[nodiscard]] twin<std::int32_t, Device> random_ids(index count, index below) {
    return of(ops_support::random_ids(count, static_cast<std::int32_t>(below), ++seed_));
  }
  /// Bytes of 0xff: NaN, where there is one. An element that is not written shows.
  template <class T>
  [[nodiscard]] twin<T, Device> poisoned(index count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    std::memset(static_cast<void*>(values.data()), 0xff, values.size() * sizeof(T));
    return of(values);
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

/// A seed that no run before had.
[[nodiscard]] inline std::uint64_t fresh_seed() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 20U) & 0xfffffffffff00000ULL;
}

template <class Stream, class Twin>
[[nodiscard]] auto elements(Stream const& s, Twin& of) {
  return std::span(of.on(s), static_cast<std::size_t>(of.size()));
}
template <class Stream, class Twin>
[[nodiscard]] auto as_vector(Stream const& s, Twin& of) {
  using element = std::remove_pointer_t<decltype(of.on(s))>;
  return vector_view<element>(of.on(s), {of.size()});
}
template <class Stream, class Twin>
[[nodiscard]] auto as_matrix(Stream const& s, Twin& of, index rows, index columns) {
  using element = std::remove_pointer_t<decltype(of.on(s))>;
  return matrix_view<element>(of.on(s), {rows, columns});
}

/// |got - expected| <= relative |expected| + absolute, and NaN where NaN is expected.
template <class T, class Device>
void check_near(twin<T, Device> const& of, double absolute, double relative = 2.0 * unit<T>) {
  CHECK(ops_support::excess(of.values(), of.expected(), relative) <= absolute);
}
/// |got - expected| <= share of the greatest |expected|.
template <class T, class Device>
void check_close(twin<T, Device> const& of, double share) {
  double greatest = 0.0;
  for (double const value : of.expected()) greatest = std::max(greatest, std::abs(value));
  CHECK(ops_support::excess(of.values(), of.expected(), 0.0) <= share * greatest);
}
/// got == expected, as numbers.
template <class T, class Device>
void check_equal(twin<T, Device> const& of) {
  CHECK(ops_support::excess(of.values(), of.expected(), 0.0) == 0.0);
}
/// got == expected, as 64-bit integers, which double cannot hold.
template <class Device>
void check_equal(twin<std::uint64_t, Device> const& of) {
  CHECK(of.values() == of.expected());
}

}  // namespace test
