// The kernels that are no operation of a list, compiled for the fake CUDA runtime.
#include "combine.cu"
#include "documents.cu"
#include "gpu/ring_items.cu"
#include "matmul.cu"
