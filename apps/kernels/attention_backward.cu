// instances/attention_backward.inc on a GPU.
#include <parallel/ops/cuda/attention.cuh>

namespace parallel::cuda {
#include "instances/attention_backward.inc"
}  // namespace parallel::cuda
