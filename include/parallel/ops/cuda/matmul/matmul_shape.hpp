// The shape of a product, by which a library's algorithms are chosen and cached, and the same
// product in the form that column-major libraries take.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::cuda {

/// The scratch memory of a stream for every product by a library: NVIDIA's recommendation for
/// Hopper.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;

/// The additional work of a product.
enum class matmul_epilogue : std::uint8_t {
  none,
  bias,          // a number for each column of C is added
  bias_gradient  // the row sums of op(A) are written: for C = dyᵀ x the gradient of a bias
};

/// C [m, n] = op(A) [m, k] op(B) [k, n], plus C or another matrix if it accumulates, row-major and
/// contiguous: exactly the properties that the choice of an algorithm depends on.
struct matmul_shape {
  index m = 0;
  index n = 0;
  index k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  matmul_epilogue epilogue = matmul_epilogue::none;
  dtype input = dtype::f32;   ///< of A and B
  dtype output = dtype::f32;  ///< of C
  unsigned alignment_a = 16;  ///< see alignment_of
  unsigned alignment_b = 16;
  unsigned alignment_c = 16;  ///< also of the addend

  friend auto operator<=>(matmul_shape const&, matmul_shape const&) = default;
};

/// The largest power of two up to 16 that divides the address, in bytes. More than 16 gains
/// nothing: it is the largest alignment that loads and the tensor cores' copies need.
[[nodiscard]] inline unsigned alignment_of(void const* pointer) {
  auto const address = reinterpret_cast<std::uintptr_t>(pointer);
  return 1U << std::min(std::countr_zero(address), 4);
}

/// The shape of matmul(c, a, b, options, addend), in the form that a device gets.
template <class C, class T>
[[nodiscard]] matmul_shape shape_of(matrix_view<C> c, matrix_view<T> a, matrix_view<T> b,
                                    ops::matmul_options options,
                                    matrix_view<std::type_identity_t<C> const> addend = {}) {
  return {.m = c.extent(0),
          .n = c.extent(1),
          .k = a.extent(options.transpose_a ? 0 : 1),
          .transpose_a = options.transpose_a,
          .transpose_b = options.transpose_b,
          .accumulate = options.accumulate,
          .input = dtype_of<T>,
          .output = dtype_of<C>,
          .alignment_a = alignment_of(a.data()),
          .alignment_b = alignment_of(b.data()),
          .alignment_c = std::min(alignment_of(c.data()), alignment_of(addend.data()))};
}

/// Bytes of scratch that the library gets for a product of the shape; the rest of
/// product_workspace_bytes is for the gradient of a bias.
[[nodiscard]] constexpr std::size_t workspace_of(matmul_shape const& s) {
  if (s.epilogue != matmul_epilogue::bias_gradient) return product_workspace_bytes;
  std::size_t const sums = static_cast<std::size_t>(s.m) * size_of(s.output);
  return product_workspace_bytes - (sums + 255) / 256 * 256;
}

/// A matrix that is stored column by column; `leading` is the distance from one column to the next.
struct column_major_matrix {
  bool transpose = false;
  index rows = 0;
  index columns = 0;
  index leading = 0;

  friend bool operator==(column_major_matrix const&, column_major_matrix const&) = default;
};

/// result [n, m] = op(first) [n, k] op(second) [k, m], all column-major. `first` is B's memory,
/// `second` A's, `result` C's.
struct column_major_product {
  column_major_matrix first;
  column_major_matrix second;
  column_major_matrix result;

  friend bool operator==(column_major_product const&, column_major_product const&) = default;
};

/// A row-major product as a column-major one, without moving an element. Memory that holds X row by
/// row holds its transpose column by column; and C^T = op(B)^T op(A)^T. So the operands are
/// exchanged, and each keeps its transposition flag: y = x W^T is "TN", dx = dy W "NN", dW = dy^T x
/// "NT".
[[nodiscard]] constexpr column_major_product column_major(matmul_shape const& s) {
  auto const stored = [](bool transpose, index rows, index columns) -> column_major_matrix {
    if (transpose) return {true, rows, columns, rows};  // row-major [columns, rows]
    return {false, columns, rows, columns};             // row-major [rows, columns]
  };
  return {.first = stored(s.transpose_b, s.k, s.n),
          .second = stored(s.transpose_a, s.m, s.k),
          .result = stored(false, s.m, s.n)};
}

}  // namespace parallel::cuda
