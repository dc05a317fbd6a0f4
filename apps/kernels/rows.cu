// instances/rows.inc on a GPU.
#include <parallel/ops/cuda/rows.cuh>

namespace parallel::cuda {
#include "instances/rows.inc"
}  // namespace parallel::cuda
