// instances/layer_norm.inc on a GPU.
#include <parallel/ops/cuda/layer_norm.cuh>

namespace parallel::cuda {
#include "instances/layer_norm.inc"
}  // namespace parallel::cuda
