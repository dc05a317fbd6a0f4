// instances/adamw.inc on a GPU.
#include <parallel/ops/cuda/adamw.cuh>

namespace parallel::cuda {
#include "instances/adamw.inc"
}  // namespace parallel::cuda
