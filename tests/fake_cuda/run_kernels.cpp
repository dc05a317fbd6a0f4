// The bf16 operations that training runs in float need to link; the fake runtime's lists of
// operations leave bf16 out.
#include <parallel/ops/cuda/pointwise/elementwise.cuh>
#include <parallel/ops/cuda/reduce.cuh>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

template void run_operation(stream&, ops::fill_arguments<bf16> const&);
template void run_operation(stream&, ops::normalise_arguments<bf16> const&);
template void run_operation(stream&, ops::squared_norm_arguments<bf16> const&);

}  // namespace parallel::cuda
