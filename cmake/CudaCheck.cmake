# Target cuda_check (PARALLELLM_CUDA_CHECK=ON): the CUDA side compiles and links. Nothing needs a
# GPU: device code is compiled for sm_90 with --Ofast-compile, which proves it compiles and is not
# for use.
#   1. a main that g++ compiled against declarations, linked with the instantiated operations;
#   2. every public header of include/parallel, included by one .cu;
#   3. where cuDNN and tests are, the test of what cuDNN accepts.
# Left out of 2: comm/mpi, comm/gloo, Kokkos's and the onednn, cblas and cudnn headers, which need those libraries; and
# the host kernels (ops/host, and parallel.hpp, which includes them), where nvcc 13 loses the "..." of
# __builtin_shufflevector(a, b, (Lane + 1)...).

if(NOT TARGET ParallelLM::cuda)
  message(FATAL_ERROR "PARALLELLM_CUDA_CHECK needs the CUDA Toolkit, version 13 or newer")
endif()

file(GLOB_RECURSE cuda_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/include
  include/parallel/*.hpp)
list(FILTER cuda_headers EXCLUDE REGEX
  "/(mpi|gloo|kokkos)[/.]|/(onednn|cblas|cudnn)|ops/host[/.]|^parallel/parallel")
list(TRANSFORM cuda_headers REPLACE "(.+)" "#include <\\1>")
list(JOIN cuda_headers "\n" cuda_headers)
file(CONFIGURE OUTPUT generated/all_headers.cu CONTENT
  "// Every public header, as nvcc sees it.\n@cuda_headers@\n" @ONLY)

set(sources ${CMAKE_CURRENT_SOURCE_DIR}/tests/consumer/cuda)
add_executable(cuda_check EXCLUDE_FROM_ALL ${sources}/main.cpp
  ${CMAKE_CURRENT_BINARY_DIR}/generated/all_headers.cu)
target_compile_features(cuda_check PRIVATE cuda_std_20)
target_compile_options(cuda_check PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:${parallellm_nvcc_options};--Ofast-compile=max>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Werror>")
target_link_libraries(cuda_check PRIVATE ParallelLM::checkpoint ParallelLM::kernels)
if(TARGET test_cudnn)
  add_dependencies(cuda_check test_cudnn)
endif()
