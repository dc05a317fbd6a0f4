// heads_view: a view of the elements [batch, sequence, head, i] of queries, keys, values or
// results. Strides describe where they are, so that columns of a packed [q | k | v] matrix need no
// copy.
#pragma once

#include <cassert>
#include <type_traits>

#include <parallel/core/tensor.hpp>

namespace parallel::ops {

/// Element (b, s, h, i) is at data + b * batch_stride + s * row_stride + h * head_dim + i.
template <class T>
struct heads_view {
  T* data = nullptr;
  index batch = 0;
  index sequence = 0;
  index heads = 0;
  index head_dim = 0;
  index batch_stride = 0;  ///< elements from one sequence to the next
  index row_stride = 0;    ///< elements from one position to the next, >= heads * head_dim

  [[nodiscard]] constexpr index size() const { return batch * sequence * heads * head_dim; }

  /// The `head_dim` contiguous elements of one batch entry, position and head.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr T* row(index b, index s, index h) const {
    assert(0 <= b && b < batch && 0 <= s && s < sequence && 0 <= h && h < heads);
    return data + b * batch_stride + s * row_stride + h * head_dim;
  }

  /// Positions [begin, end) of every sequence.
  [[nodiscard]] constexpr heads_view slice(index begin, index end) const {
    assert(0 <= begin && begin <= end && end <= sequence);
    heads_view out = *this;
    if (data != nullptr) out.data += begin * row_stride;
    out.sequence = end - begin;
    return out;
  }

  /// A view of mutable elements is also a view of const ones.
  template <class U>
  requires(std::is_same_v<U, T const> && !std::is_const_v<T>) PARALLELLM_HOST_DEVICE constexpr
  operator heads_view<U>() const {  // NOLINT(google-explicit-constructor)
    return {data, batch, sequence, heads, head_dim, batch_stride, row_stride};
  }
};

}  // namespace parallel::ops
