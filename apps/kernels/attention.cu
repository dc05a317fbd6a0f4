// instances/attention.inc on a GPU.
#include <parallel/ops/cuda/attention.cuh>

namespace parallel::cuda {
#include "instances/attention.inc"
}  // namespace parallel::cuda
