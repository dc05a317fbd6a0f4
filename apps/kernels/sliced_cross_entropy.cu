// instances/sliced_cross_entropy.inc on a GPU.
#include <parallel/ops/cuda/sliced_cross_entropy.cuh>

namespace parallel::cuda {
#include "instances/sliced_cross_entropy.inc"
}  // namespace parallel::cuda
