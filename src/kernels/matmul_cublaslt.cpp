// matmul for float, bf16 and bf16 into float by cuBLASLt, for double and std::uint64_t by the plain
// kernel.

#include <parallel/ops/cuda/matmul/cublaslt.hpp>
#include <parallel/ops/cuda/run.hpp>

namespace parallel::cuda {

#include "instances/matmul.inc"

// the other operations that affine calls are compiled with the other kernels
extern template void run_operation(stream&, ops::add_arguments<float> const&);
extern template void run_operation(stream&, ops::add_bias_arguments<float> const&);
extern template void run_operation(stream&, ops::add_bias_arguments<bf16> const&);
extern template void run_operation(stream&, ops::add_bias_backward_arguments<float> const&);
extern template void run_operation(stream&, ops::add_bias_backward_arguments<bf16> const&);
template void run_operation(stream&, ops::affine_arguments<float> const&);
template void run_operation(stream&, ops::affine_arguments<bf16> const&);
template void run_operation(stream&, ops::affine_backward_weight_arguments<float> const&);
template void run_operation(stream&, ops::affine_backward_weight_arguments<bf16> const&);

}  // namespace parallel::cuda
