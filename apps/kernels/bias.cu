// instances/bias.inc on a GPU.
#include <parallel/ops/cuda/bias.cuh>

namespace parallel::cuda {
#include "instances/bias.inc"
}  // namespace parallel::cuda
