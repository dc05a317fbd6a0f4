// The only header that looks at the compiler: decoration of functions shared by host and device.
#pragma once

#if defined(__CUDACC__)
#define PARALLELLM_HOST_DEVICE __host__ __device__
#else
#define PARALLELLM_HOST_DEVICE
#endif
