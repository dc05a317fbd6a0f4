// instances/reduce.inc on a GPU.
#include <parallel/ops/cuda/reduce.cuh>

namespace parallel::cuda {
#include "instances/reduce.inc"
}  // namespace parallel::cuda
