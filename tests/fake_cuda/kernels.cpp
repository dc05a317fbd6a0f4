// The kernels that are not in a list of operations, compiled for the fake CUDA runtime.
#include "combine.cu"
#include "documents.cu"
#include "expert_order.cu"
#include "gpu/ring_items.cu"
#include "matmul.cu"
