// The meaning of the operations of cuDNN's graphs, element by element, over any type of tensors of
// four dimensions. A tensor has `extents`, set(i, value) and get(i, shape), which reads element i
// of the tensor broadcast to `shape`: neighbours share an element where the tensor has fewer.
#pragma once

#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <parallel/core/error.hpp>

namespace test::graph_meaning {

using sizes = std::array<std::int64_t, 4>;

template <class F>
void for_each(sizes const& extents, F const& f) {
  sizes i{};
  for (i[0] = 0; i[0] < extents[0]; ++i[0])
    for (i[1] = 0; i[1] < extents[1]; ++i[1])
      for (i[2] = 0; i[2] < extents[2]; ++i[2])
        for (i[3] = 0; i[3] < extents[3]; ++i[3]) f(i);
}

/// The offset in a tensor of element i of the tensor broadcast to `shape`.
[[nodiscard]] inline std::int64_t offset(sizes const& i, sizes const& shape, sizes const& extents,
                                         sizes const& strides) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < 4; ++d) out += i[d] / (shape[d] / extents[d]) * strides[d];
  return out;
}

[[nodiscard]] inline double value(cudnnPointwiseMode_t mode, double a, double b) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD: return a + b;
    case CUDNN_POINTWISE_SUB: return a - b;
    case CUDNN_POINTWISE_MUL: return a * b;
    case CUDNN_POINTWISE_DIV: return a / b;
    case CUDNN_POINTWISE_EXP: return std::exp(a);
    case CUDNN_POINTWISE_LOG: return std::log(a);
    case CUDNN_POINTWISE_IDENTITY: return a;
    case CUDNN_POINTWISE_CMP_GE: return a >= b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_CMP_GT: return a > b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_CMP_LT: return a < b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_LOGICAL_AND: return a != 0.0 && b != 0.0 ? 1.0 : 0.0;
    default: break;
  }
  parallel::fail("an operation that the tests do not know: ", static_cast<int>(mode));
}

template <class Tensor>
void apply(cudnnPointwiseMode_t mode, Tensor const& a, Tensor const& b, Tensor const& y) {
  for_each(y.extents, [&](sizes const& i) {
    y.set(i, value(mode, a.get(i, y.extents), b.get(i, y.extents)));
  });
}

template <class Tensor>
void select(Tensor const& selected, Tensor const& otherwise, Tensor const& mask, Tensor const& y) {
  for_each(y.extents, [&](sizes const& i) {
    y.set(i, (mask.get(i, y.extents) != 0.0 ? selected : otherwise).get(i, y.extents));
  });
}

template <class Tensor>
void positions(std::int64_t axis, Tensor const& y) {
  for_each(y.extents, [&](sizes const& i) {
    y.set(i, static_cast<double>(i[static_cast<std::size_t>(axis)]));
  });
}

/// The numbers of valid rows, columns and terms of a product in each sequence; empty means all.
struct valid_extents {
  std::vector<std::int64_t> rows = {}, columns = {}, depth = {};

  [[nodiscard]] static std::int64_t extent_of(std::vector<std::int64_t> const& extents,
                                              std::int64_t sequence, std::int64_t default_extent) {
    return extents.empty() ? default_extent : extents[static_cast<std::size_t>(sequence)];
  }
};

/// A product with sums of type Sum. `order` 0 adds from the first term to the last, 1 backwards, 2
/// the even terms and the odd terms separately. Elements outside the valid extents become NaN.
template <class Sum, class Tensor>
void multiply(Tensor const& a, Tensor const& b, Tensor const& c, int order = 0,
              valid_extents const& valid = {}) {
  sizes const of_a = {c.extents[0], c.extents[1], c.extents[2], a.extents[3]};
  sizes const of_b = {c.extents[0], c.extents[1], a.extents[3], c.extents[3]};
  for_each({c.extents[0], c.extents[1], 1, 1}, [&](sizes const& i) {
    std::int64_t const rows = valid_extents::extent_of(valid.rows, i[0], c.extents[2]);
    std::int64_t const columns = valid_extents::extent_of(valid.columns, i[0], c.extents[3]);
    std::int64_t const depth = valid_extents::extent_of(valid.depth, i[0], a.extents[3]);
    std::vector<double> of_row(static_cast<std::size_t>(depth));
    std::vector<double> of_columns(static_cast<std::size_t>(columns * depth));
    for_each({1, 1, columns, depth}, [&](sizes const& j) {
      of_columns[static_cast<std::size_t>(j[2] * depth + j[3])] =
          b.get({i[0], i[1], j[3], j[2]}, of_b);
    });
    for (std::int64_t row = 0; row < c.extents[2]; ++row) {
      for (std::int64_t k = 0; row < rows && k < depth; ++k)
        of_row[static_cast<std::size_t>(k)] = a.get({i[0], i[1], row, k}, of_a);
      for (std::int64_t column = 0; column < c.extents[3]; ++column) {
        bool const is_valid = row < rows && column < columns;
        std::int64_t const first = column * depth;
        Sum sums[2] = {};
        for (std::int64_t term = 0; is_valid && term < depth; ++term) {
          std::int64_t const k = order == 1 ? depth - 1 - term : term;
          sums[order == 2 ? k % 2 : 0] +=
              static_cast<Sum>(of_row[static_cast<std::size_t>(k)] *
                               of_columns[static_cast<std::size_t>(first + k)]);
        }
        c.set({i[0], i[1], row, column}, is_valid ? static_cast<double>(sums[0] + sums[1])
                                                  : std::numeric_limits<double>::quiet_NaN());
      }
    }
  });
}

/// Reduces over the dimensions in which y has fewer elements.
template <class Sum, class Tensor>
void reduce(cudnnReduceTensorOp_t operation, Tensor const& x, Tensor const& y) {
  bool const greatest = operation == CUDNN_REDUCE_TENSOR_MAX;
  sizes const dense = {y.extents[1] * y.extents[2] * y.extents[3], y.extents[2] * y.extents[3],
                       y.extents[3], 1};
  std::vector<Sum> sums(static_cast<std::size_t>(dense[0] * y.extents[0]),
                        greatest ? -std::numeric_limits<Sum>::infinity() : Sum(0));
  for_each(x.extents, [&](sizes const& i) {
    auto& result = sums[static_cast<std::size_t>(offset(i, x.extents, y.extents, dense))];
    auto const element = static_cast<Sum>(x.get(i, x.extents));
    result = greatest ? std::max(result, element) : result + element;
  });
  for_each(y.extents, [&](sizes const& i) {
    y.set(i, static_cast<double>(
                 sums[static_cast<std::size_t>(offset(i, y.extents, y.extents, dense))]));
  });
}

/// Exchanges the last two dimensions.
template <class Tensor>
void transpose(Tensor const& x, Tensor const& y) {
  for_each(y.extents, [&](sizes const& i) {
    y.set(i, x.get({i[0], i[1], i[3], i[2]}, x.extents));
  });
}

}  // namespace test::graph_meaning
