// The only header that looks at the compiler: decoration of functions shared by host and device.
//
// HOST_DEVICE functions are called from both. DEVICE ones are the insides of kernels: nvcc makes
// device code of them only, and any other compiler plain functions, which is how they are tested.
#pragma once

#if defined(__CUDACC__)
#define PARALLELLM_HOST_DEVICE __host__ __device__
#define PARALLELLM_DEVICE __device__
#else
#define PARALLELLM_HOST_DEVICE
#define PARALLELLM_DEVICE
#endif

// One statement for code that runs on a GPU, and one for all other code: for instructions that C++
// has no name for (core/instructions.hpp).
#if defined(__CUDA_ARCH__)
#define PARALLELLM_DEVICE_ELSE(device, other) device
#else
#define PARALLELLM_DEVICE_ELSE(device, other) other
#endif
