// instances/rope.inc on a GPU.
#include <parallel/ops/cuda/rope.cuh>

namespace parallel::cuda {
#include "instances/rope.inc"
}  // namespace parallel::cuda
