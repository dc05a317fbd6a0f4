// The only header that looks at the compiler: what it must be able to do and how it must calculate,
// each refused in one sentence, and decoration of functions. Every public header reaches it before
// any that would not compile.
//
// HOST_DEVICE functions are called from both. DEVICE ones are the insides of kernels: nvcc makes
// device code of them only, and any other compiler plain functions, which is how they are tested.
#pragma once

#include <version>

// Where nothing of the library would compile the file that is not there ends the compiler's output.
#if __cplusplus < 202002L
#error "ParallelLM needs C++20, and this file is compiled as an older C++: add -std=c++20."
#include "the reason stands one error above"
#endif
#if !defined(__cpp_exceptions)
#error \
    "ParallelLM reports errors by exceptions, which -fno-exceptions turns off: compile without it."
#include "the reason stands one error above"
#endif
#if !defined(__cpp_rtti)
#error \
    "ParallelLM tells kinds of errors apart by dynamic_cast, which -fno-rtti turns off: compile without it."
#include "the reason stands one error above"
#endif
#if __SIZEOF_POINTER__ < 8
#error "ParallelLM counts elements in 64 bits and needs a 64-bit target: compile without -m32."
#include "the reason stands one error above"
#endif
#if !defined(__cpp_lib_jthread)
#error \
    "ParallelLM needs std::jthread, which this standard library lacks: take libstdc++, or libc++ 18 or newer with -fexperimental-library."
#include "the reason stands one error above"
#endif
#if defined(min) || defined(max)
#error \
    "Before ParallelLM's headers min or max is defined as a macro: #undef them, or define NOMINMAX."
#include "the reason stands one error above"
#endif

// Masks are infinities, NaN tells of errors, and layouts have equal bits since sums are added in
// the order in which they are written.
#if defined(__FAST_MATH__)
#error \
    "ParallelLM relies on IEEE arithmetic, which -ffast-math and -Ofast give up: compile without them."
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error \
    "ParallelLM masks by infinities and looks for NaN, which -ffinite-math-only gives up: compile without it."
#elif defined(__ASSOCIATIVE_MATH__)
#error \
    "ParallelLM adds in the order that it writes, which -fassociative-math and -funsafe-math-optimizations give up: compile without them."
#endif

// A function that std::vector needs to be usable in constant expressions for: where it is not, as
// with -D_GLIBCXX_DEBUG, such functions run all the same.
#if defined(__cpp_lib_constexpr_vector) && !defined(_GLIBCXX_DEBUG)
#define PARALLELLM_VECTOR_CONSTEXPR constexpr
#else
#define PARALLELLM_VECTOR_CONSTEXPR inline
#endif

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
