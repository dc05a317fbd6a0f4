// A matrix product as a cuBLASLt plan: its descriptors, the algorithms that the library offers, the
// call.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/ops/cuda/matmul/matmul_shape.hpp>
#include <parallel/ops/cuda/matmul/matmul_tuning.hpp>

namespace parallel::cuda {

/// Throws `error` with `call`, cuBLASLt's reason and the call site, unless `status` is success.
inline void check(cublasStatus_t status, char const* call,
                  call_site caller = call_site::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail("cuBLASLt: ", call, " failed with ", cublasLtGetStatusName(status), ": ",
       cublasLtGetStatusString(status), " (", caller, ")");
}

/// Products of one shape, whose m, n and k are not zero. Sums are in float, for bf16 and for float
/// (which is not rounded to TF32). A plan cannot be copied or moved, since the library's matrix
/// layouts cannot.
class cublaslt_plan {
 public:
  explicit cublaslt_plan(matmul_shape const& shape)
      : shape_(shape), beta_(shape.accumulate ? 1.0F : 0.0F) {
    auto const product = column_major(shape);
    describe(first_, shape.input, product.first);
    describe(second_, shape.input, product.second);
    describe(result_, shape.output, product.result);
    check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescInit");
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, product.first.transpose);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, product.second.transpose);
    if (shape.epilogue == matmul_epilogue::none) return;
    // columns of a row-major result are rows to the library, to each of which it adds a number;
    // op(A) is the library's second operand, whose columns it sums
    describe_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, shape.epilogue == matmul_epilogue::bias
                                                          ? CUBLASLT_EPILOGUE_BIAS
                                                          : CUBLASLT_EPILOGUE_BGRADB);
    set_bias(&dummy_bias);
  }

  cublaslt_plan(cublaslt_plan&&) = delete;

  /// At most `max_count` (16) algorithms, the library's guess of the fastest first; none when the
  /// library has none for this shape. Algorithms that split k are included only if they add the
  /// parts in float: results are rounded once.
  [[nodiscard]] std::vector<matmul_algorithm> guesses(cublasLtHandle_t library,
                                                      int max_count = max_guesses) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_of(shape_)});
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,  // besides NONE, which has no bit
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{shape_.alignment_b});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{shape_.alignment_a});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{shape_.alignment_c});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{shape_.alignment_c});
    // not a vector: nvcc 13.0 fails on vectors of the library's types, which have no names
    cublasLtMatmulHeuristicResult_t results[max_guesses] = {};
    int count = 0;
    auto const status = cublasLtMatmulAlgoGetHeuristic(
        library, &operation_, &first_, &second_, &result_, &result_, &preference,
        std::min(max_count, max_guesses), results, &count);
    std::vector<matmul_algorithm> algorithms;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(
            {.words = std::bit_cast<decltype(matmul_algorithm::words)>(results[i].algo),
             .guess = i});
    return algorithms;
  }

  /// Whether the library can run `algorithm`, from any source, for this shape on this device.
  [[nodiscard]] bool takes(cublasLtHandle_t library, matmul_algorithm const& algorithm) {
    auto const words = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm.words);
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(library, &operation_, &first_, &second_, &result_, &result_,
                                   &words, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= workspace_of(shape_);
  }

  /// Sets the memory of the bias, or of its gradient: aligned to 16 bytes, of the element type of
  /// C.
  void set_bias(void const* bias) { describe_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  /// Enqueues C = op(A) op(B), plus `addend` (C or another matrix) if and only if the shape
  /// accumulates, with workspace_of(shape) bytes of `workspace`.
  [[nodiscard]] cublasStatus_t run(cublasLtHandle_t library, matmul_algorithm const& algorithm,
                                   void* c, void const* a, void const* b, void const* addend,
                                   void* workspace, cudaStream_t stream) {
    auto const words = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm.words);
    float const alpha = 1.0F;
    return cublasLtMatmul(library, &operation_, &alpha, b, &first_, a, &second_, &beta_,
                          addend == nullptr ? c : addend, &result_, c, &result_, &words, workspace,
                          workspace_of(shape_), stream);
  }

 private:
  static constexpr int max_guesses = 16;
  /// A valid bias pointer for queries of algorithms before there is a bias; nothing reads it.
  alignas(16) static constexpr char dummy_bias = 0;

  static void describe(cublasLtMatrixLayoutOpaque_t& layout, dtype type,
                       column_major_matrix const& x) {
    check(cublasLtMatrixLayoutInit(&layout, type == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F,
                                   static_cast<std::uint64_t>(x.rows),
                                   static_cast<std::uint64_t>(x.columns), x.leading),
          "cublasLtMatrixLayoutInit");
  }
  void transpose(cublasLtMatmulDescAttributes_t attribute, bool is_transposed) {
    describe_operation(attribute, is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  }
  template <class Value>
  void describe_operation(cublasLtMatmulDescAttributes_t attribute, Value const& value) {
    check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  matmul_shape shape_;
  float beta_;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t first_{};
  cublasLtMatrixLayoutOpaque_t second_{};
  cublasLtMatrixLayoutOpaque_t result_{};
};

}  // namespace parallel::cuda
