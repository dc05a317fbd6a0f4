// instances/activation.inc on a GPU.
#include <parallel/ops/cuda/activation.cuh>

namespace parallel::cuda {
#include "instances/activation.inc"
}  // namespace parallel::cuda
