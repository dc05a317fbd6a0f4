// with_element: calls a function with the type of a model's elements in a precision.
#pragma once

#include <mpt/config/train.hpp>
#include <parallel/core/dtype.hpp>

namespace apps {

/// call(T()) for the element type T of parameters in that precision.
template <class F>
decltype(auto) with_element(mpt::precision_kind precision, F const& call) {
  return precision == mpt::precision_kind::fp32 ? call(float()) : call(parallel::bf16());
}

}  // namespace apps
