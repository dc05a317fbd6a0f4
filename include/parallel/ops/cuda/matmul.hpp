// matmul on cuda::stream: declarations only, for compilers other than nvcc.
//
// float, bf16 and bf16 into float run on cuBLASLt (cublaslt.hpp), double and std::uint64_t on the
// plain kernel (matmul.cuh). A program that includes only this file links with the instances of
// both.
#pragma once

#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::cuda {

/// A product by the plain kernel (kernels/matmul.hpp), for all types. It is slow; tests compare
/// cuBLASLt's products with it.
template <class C, class T>
void plain_matmul(stream& s, ops::matmul_arguments<C, T> const& a);

}  // namespace parallel::cuda
