// instances/rms_norm.inc on a GPU.
#include <parallel/ops/cuda/rms_norm.cuh>

namespace parallel::cuda {
#include "instances/rms_norm.inc"
}  // namespace parallel::cuda
