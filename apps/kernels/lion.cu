// instances/lion.inc on a GPU.
#include <parallel/ops/cuda/lion.cuh>

namespace parallel::cuda {
#include "instances/lion.inc"
}  // namespace parallel::cuda
