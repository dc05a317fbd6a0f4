// A fake cuBLASLt on the fake CUDA runtime. It offers three algorithms for every product; a product
// enqueues the number of its algorithm.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "support/devices/fake_cuda.hpp"

namespace fake {

/// Milliseconds that a product takes with each algorithm; the first choice is the slowest.
inline constexpr int product_times[] = {5, 4, 2};
inline constexpr int fastest_product = 2;

/// Additional milliseconds of a product with a bias gradient.
inline float bias_gradient_time = 0;

/// The epilogue and bias that were set last.
inline cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
inline void const* bias = nullptr;
/// The epilogue of each product description.
inline std::map<void const*, cublasLtEpilogue_t> epilogues;

}  // namespace fake

extern "C" {

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  static int library;
  *out = reinterpret_cast<cublasLtHandle_t>(&library);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline char const* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_FAKE"; }
inline char const* cublasLtGetStatusString(cublasStatus_t) {
  return "a status of the fake library";
}
inline std::size_t cublasLtGetVersion() { return 1; }

inline cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t, std::size_t,
                                                        cudaDataType, std::uint64_t, std::uint64_t,
                                                        std::int64_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, std::size_t,
                                                      cublasComputeType_t, cudaDataType_t) {
  fake::epilogues[description] = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                                     cublasLtMatmulDescAttributes_t attribute,
                                                     void const* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) {
    std::memcpy(&fake::epilogue, value, bytes);
    fake::epilogues[description] = fake::epilogue;
  }
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) std::memcpy(&fake::bias, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t,
                                                            std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           void const*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatmulPreference_t, int max_count,
                                                     cublasLtMatmulHeuristicResult_t* out,
                                                     int* count) {
  *count = std::min(max_count, 3);
  for (int i = 0; i < *count; ++i) {
    out[i].state = CUBLAS_STATUS_SUCCESS;
    out[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulAlgo_t const* algorithm,
                                              cublasLtMatmulHeuristicResult_t*) {
  return algorithm->data[0] < 3 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                     void const*, void const*, cublasLtMatrixLayout_t, void const*,
                                     cublasLtMatrixLayout_t, void const*, void const*,
                                     cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                     cublasLtMatmulAlgo_t const* algorithm, void*, std::size_t,
                                     cudaStream_t stream) {
  auto const algorithm_number = static_cast<int>(algorithm->data[0]);
  fake::enqueue(stream, algorithm_number);
  fake::machine().time += static_cast<float>(fake::product_times[algorithm_number] - 1);
  if (fake::epilogues[description] == CUBLASLT_EPILOGUE_BGRADB)
    fake::machine().time += fake::bias_gradient_time;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
