// matmul on cuda::stream, for plain C++ compilers: declarations only.
//
// float, bf16 and bf16 into float run on cuBLASLt (cublaslt.hpp), double and std::uint64_t on the
// plain kernel (matmul.cuh). Whoever includes only this file links with the instantiations of both.
#pragma once

#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::cuda {

/// A product by the plain kernel (kernels/matmul.hpp), whatever the types: slow, and what the
/// others are held against.
template <class C, class T>
void plain_matmul(stream& s, ops::matmul_arguments<C, T> const& a);

}  // namespace parallel::cuda
