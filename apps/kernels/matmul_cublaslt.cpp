// matmul for float, bf16 and bf16 into float by cuBLASLt, for double and std::uint64_t by the plain
// kernel.
#include <cstdint>

#include <parallel/ops/cuda/cublaslt.hpp>
#include <parallel/ops/cuda/run.hpp>

namespace parallel::cuda {

#include "instances/matmul.inc"

// what affine takes where the library does not add the bias is compiled with the other kernels
extern template void run_operation(stream&, ops::add_bias_arguments<float> const&);
extern template void run_operation(stream&, ops::add_bias_arguments<bf16> const&);
template void run_operation(stream&, ops::affine_arguments<float> const&);
template void run_operation(stream&, ops::affine_arguments<bf16> const&);

}  // namespace parallel::cuda
