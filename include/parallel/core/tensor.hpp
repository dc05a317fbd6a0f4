// tensor_view: a non-owning, contiguous, row-major view with N extents known at run time.
//
// A view is a pointer and a shape; operations take views. On the meta device the pointer is null or
// an offset and is never dereferenced. Cost of a copy: N+1 words.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/error.hpp>

namespace parallel {

/// The type of extents, positions and counts of elements.
using index = std::ptrdiff_t;

/// Extents of a tensor, outermost first; the last one is contiguous in memory.
template <std::size_t N>
using shape = std::array<index, N>;

/// The number of elements of a tensor.
template <std::size_t N>
[[nodiscard]] constexpr index volume(shape<N> const& extents) {
  index product = 1;
  for (index const extent : extents) product *= extent;
  return product;
}

template <class T, std::size_t N>
class tensor_view {
 public:
  using value_type = std::remove_cv_t<T>;
  using element_type = T;
  static constexpr std::size_t rank = N;

  constexpr tensor_view() = default;
  constexpr tensor_view(T* data, shape<N> extents) : data_(data), extents_(extents) {}

  /// A view of mutable elements is also a view of const ones.
  template <class U>
  requires(std::is_same_v<T, U const> && !std::is_same_v<T, U>) constexpr tensor_view(
      tensor_view<U, N> other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()), extents_(other.extents()) {}

  [[nodiscard]] constexpr T* data() const { return data_; }
  [[nodiscard]] constexpr shape<N> const& extents() const { return extents_; }
  [[nodiscard]] constexpr index extent(std::size_t dim) const { return extents_[dim]; }
  [[nodiscard]] constexpr index size() const { return volume(extents_); }
  [[nodiscard]] constexpr bool empty() const { return size() == 0; }
  [[nodiscard]] constexpr std::span<T> span() const {
    return {data_, static_cast<std::size_t>(size())};
  }

  template <class... Index>
  requires(sizeof...(Index) == N) [[nodiscard]] constexpr T& operator()(Index... position) const {
    index offset = 0;
    std::size_t dim = 0;
    ((assert(position >= 0 && static_cast<index>(position) < extents_[dim]),
      offset = offset * extents_[dim++] + static_cast<index>(position)),
     ...);
    return data_[offset];
  }

  /// Elements [begin, end) of the outermost dimension.
  [[nodiscard]] constexpr tensor_view slice(index begin, index end) const {
    assert(0 <= begin && begin <= end && end <= extents_[0]);
    auto extents = extents_;
    index const stride = extents_[0] == 0 ? 0 : size() / extents_[0];
    extents[0] = end - begin;
    return {data_ == nullptr ? nullptr : data_ + begin * stride, extents};
  }

 private:
  T* data_ = nullptr;
  shape<N> extents_{};
};

/// A view of a matrix, [rows, columns].
template <class T>
using matrix_view = tensor_view<T, 2>;
/// A view of a vector.
template <class T>
using vector_view = tensor_view<T, 1>;

}  // namespace parallel
