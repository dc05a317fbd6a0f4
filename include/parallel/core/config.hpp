// config: what the library requires of the compiler and its options, and the macros that mark
// functions for the GPU. It is the only header that examines the compiler. Each requirement that is
// not met ends the compilation with one sentence. Every public header includes this one before any
// header that such a compiler could not compile.
//
// PARALLELLM_HOST_DEVICE functions are called from the host and from kernels. PARALLELLM_DEVICE
// functions are parts of kernels: nvcc compiles them for the GPU only; any other compiler makes
// plain functions of them, and the tests call those.
#pragma once

#include <version>

// Each #include of a missing file below stops the compiler, so that the sentence is its only
// output.
#if __cplusplus < 202002L
#error "ParallelLM needs C++20, and this file is compiled as an older C++: add -std=c++20."
#include "the reason is one error above"
#endif
#if !defined(__cpp_exceptions)
#error \
    "ParallelLM reports errors by exceptions, which -fno-exceptions turns off: compile without it."
#include "the reason is one error above"
#endif
#if !defined(__cpp_rtti)
#error \
    "ParallelLM tells kinds of errors apart by dynamic_cast, which -fno-rtti turns off: compile without it."
#include "the reason is one error above"
#endif
#if __SIZEOF_POINTER__ < 8
#error "ParallelLM counts elements in 64 bits and needs a 64-bit target: compile without -m32."
#include "the reason is one error above"
#endif
#if !defined(__cpp_lib_jthread)
#error \
    "ParallelLM needs std::jthread, which this standard library lacks: take libstdc++, or libc++ 18 or newer with -fexperimental-library."
#include "the reason is one error above"
#endif
#if defined(min) || defined(max)
#error \
    "Before ParallelLM's headers min or max is defined as a macro: #undef them, or define NOMINMAX."
#include "the reason is one error above"
#endif

// The library needs IEEE arithmetic: masks are infinities, NaN reports errors, and all layouts give
// equal bits only if sums are evaluated in the order in which they are written.
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

// Marks a constexpr function that uses std::vector. Where std::vector is not constexpr, as with
// -D_GLIBCXX_DEBUG, the function is inline and works at run time only.
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

// Chooses between a statement for code that runs on a GPU and one for all other code. It is used
// for GPU instructions that C++ has no name for (core/instructions.hpp).
#if defined(__CUDA_ARCH__)
#define PARALLELLM_DEVICE_ELSE(device, other) device
#else
#define PARALLELLM_DEVICE_ELSE(device, other) other
#endif
