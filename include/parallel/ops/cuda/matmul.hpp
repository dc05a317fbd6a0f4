// matmul on cuda::stream, for plain C++ compilers: declarations only.
//
// float, bf16 and bf16 into float run on cuBLASLt (cublaslt.hpp), double and std::uint64_t on the
// plain kernel (matmul.cuh). A program that includes only this file links with the instances of
// both.
#pragma once

#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::cuda {

/// A product by the plain kernel (kernels/matmul.hpp), for all types: slow, and the reference for
/// the library's products.
template <class C, class T>
void plain_matmul(stream& s, ops::matmul_arguments<C, T> const& a);

}  // namespace parallel::cuda
