// The order of rows by expert, which has no element type.
#include <parallel/ops/cuda/experts/routing.cuh>

namespace parallel::cuda {

template void run_operation(stream&, ops::expert_order_arguments const&);

}  // namespace parallel::cuda
