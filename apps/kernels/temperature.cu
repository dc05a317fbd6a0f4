// instances/temperature.inc on a GPU.
#include <parallel/ops/cuda/temperature.cuh>

namespace parallel::cuda {
#include "instances/temperature.inc"
}  // namespace parallel::cuda
