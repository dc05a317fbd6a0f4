# The CUDA backend, switched on when nvcc is found (PARALLELLM_CUDA): enables the language, finds
# the vendor's libraries, and decides for which devices code is made.
#
# CMAKE_CUDA_ARCHITECTURES is 90 unless given: code for H100 and H200, which the driver of a newer GPU
# can translate; A100 needs 80. With PARALLELLM_CUDA_FAST_COMPILE kernels are compiled in a hurry: that
# proves they compile and link, three times faster, and makes slow ones.

find_package(CUDAToolkit 13 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  if(architecture MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS 80)
    message(FATAL_ERROR "ParallelLM needs bf16 in hardware: CUDA architecture ${architecture} is too "
      "old, the first that will do is 80 (A100). Set CMAKE_CUDA_ARCHITECTURES, or "
      "PARALLELLM_CUDA=OFF for the CPU alone.")
  endif()
endforeach()
enable_language(CUDA)
include(${CMAKE_CURRENT_LIST_DIR}/CudaStandard.cmake)

option(PARALLELLM_CUDA_FAST_COMPILE "Compile kernels fast, for checks: they run slowly" OFF)
if(PARALLELLM_CUDA_FAST_COMPILE)
  message(STATUS "ParallelLM: kernels are compiled in a hurry, for checks: they run slowly "
    "(PARALLELLM_CUDA_FAST_COMPILE=OFF for those to train with)")
endif()

# What our own .cu files are compiled with.
# 20011-20015: host functions called where device code is made, of which nvcc itself only warns.
# 2810: a warning of a dropped reference to a [[nodiscard]] class, which drops nothing.
set(parallellm_nvcc_options -diag-error=20011,20013,20014,20015 -diag-suppress=2810)

parallellm_plain_library(ParallelLM::cudnn cudnn_graph.h cudnn ${CUDAToolkit_INCLUDE_DIRS}
  ${CUDAToolkit_LIBRARY_DIR})

parallellm_interface(cuda ParallelLM::parallel CUDA::cudart)
