// Which slices of a layer's parameters a tensor rank holds.
#pragma once

#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>

namespace parallel::tensor {

/// A place on the tensor axis.
struct place {
  index rank = 0;
  index size = 1;

  /// This rank's equal part of `count`, which `what` names in the refusal when it is not divisible.
  [[nodiscard]] row_range part_of(index count, std::string_view what) const {
    require(count % size == 0, "tensor parallelism: ", what, " ", count, " cannot be divided by ",
            size, " ranks; choose a degree of tensor that divides it");
    return {rank * (count / size), count / size};
  }

  /// The key or value heads that this rank's query heads use: its equal part, or with fewer heads
  /// than ranks one that neighbours hold too.
  [[nodiscard]] row_range heads_of(index heads) const {
    if (heads >= size || size % heads != 0) return part_of(heads, "the number of key heads");
    return {rank / (size / heads), 1};
  }
  /// How many neighbours hold the same key head.
  [[nodiscard]] int sharers_of(index heads) const {
    return heads >= size ? 1 : static_cast<int>(size / heads);
  }
};

/// Rows of heads of `dim` each, of which those in `heads` are here, in a matrix where head 0 begins
/// at row `first`.
[[nodiscard]] constexpr row_range rows_of_heads(row_range heads, index dim, index first = 0) {
  return {first + heads.begin * dim, heads.count * dim};
}

}  // namespace parallel::tensor
