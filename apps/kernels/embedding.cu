// instances/embedding.inc on a GPU.
#include <parallel/ops/cuda/embedding.cuh>

namespace parallel::cuda {
#include "instances/embedding.inc"
}  // namespace parallel::cuda
