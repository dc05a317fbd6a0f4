// The plain product for float, bf16, bf16 into float, double and std::uint64_t.
#include <cstdint>

#include <parallel/ops/cuda/matmul.cuh>

namespace parallel::cuda {

template void plain_matmul(stream&, ops::matmul_arguments<float, float> const&);
template void plain_matmul(stream&, ops::matmul_arguments<bf16, bf16> const&);
template void plain_matmul(stream&, ops::matmul_arguments<float, bf16> const&);
template void plain_matmul(stream&, ops::matmul_arguments<double, double> const&);
template void plain_matmul(stream&, ops::matmul_arguments<std::uint64_t, std::uint64_t> const&);

}  // namespace parallel::cuda
