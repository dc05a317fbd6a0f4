// instances/clip.inc on a GPU.
#include <parallel/ops/cuda/clip.cuh>

namespace parallel::cuda {
#include "instances/clip.inc"
}  // namespace parallel::cuda
