// instances/elementwise.inc on a GPU.
#include <parallel/ops/cuda/elementwise.cuh>

namespace parallel::cuda {
#include "instances/elementwise.inc"
}  // namespace parallel::cuda
