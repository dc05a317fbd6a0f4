// instances/dropout.inc on a GPU.
#include <parallel/ops/cuda/dropout.cuh>

namespace parallel::cuda {
#include "instances/dropout.inc"
}  // namespace parallel::cuda
