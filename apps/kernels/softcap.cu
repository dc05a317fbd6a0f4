// instances/softcap.inc on a GPU.
#include <parallel/ops/cuda/softcap.cuh>

namespace parallel::cuda {
#include "instances/softcap.inc"
}  // namespace parallel::cuda
