// matmul for float, bf16 and bf16 into float by cuBLASLt, for double and std::uint64_t by the plain
// kernel.
#include <cstdint>

#include <parallel/ops/cuda/cublaslt.hpp>
#include <parallel/ops/cuda/run.hpp>

namespace parallel::cuda {

#include "instances/matmul.inc"

template void tune_products<stream>(stream&, bool);
template matmul_tuning const& tuned_products<stream>(stream&);
template void use_products<stream>(stream&, matmul_tuning);

}  // namespace parallel::cuda
