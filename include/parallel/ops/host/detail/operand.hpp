// operand: a stored matrix viewed as op(X), so that kernels need not handle transposition.
#pragma once

#include <parallel/core/tensor.hpp>

namespace parallel::host::detail {

/// Element (i, j) is at data[i * row + j * column]; one of the two strides is 1.
template <class T>
struct operand {
  T const* data = nullptr;
  index row = 0;
  index column = 0;
};

}  // namespace parallel::host::detail
