// instances/cross_entropy.inc on a GPU.
#include <parallel/ops/cuda/cross_entropy.cuh>

namespace parallel::cuda {
#include "instances/cross_entropy.inc"
}  // namespace parallel::cuda
