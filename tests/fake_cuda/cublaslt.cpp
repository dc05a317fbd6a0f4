// A fake cuBLASLt on the fake CUDA runtime: it multiplies by the given layouts, transposes, factors
// and epilogues, with sums in float. It offers three algorithms for every product, which add in
// different orders, so another algorithm gives other bits. It overwrites both ends of its
// workspace, and refuses what the library never asks for.
#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <parallel/core/dtype.hpp>

#include "fake_cuda/runtime.hpp"

namespace {

struct layout {
  cudaDataType type;
  std::int64_t rows, columns, leading;

  [[nodiscard]] std::size_t bytes() const {
    auto const elements = static_cast<std::size_t>((columns - 1) * leading + rows);
    return elements * (type == CUDA_R_16BF ? 2 : 4);
  }
};
static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct description {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t transpose_a, transpose_b;
  cublasLtEpilogue_t epilogue;
  void* bias;
};
static_assert(sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t));

struct preference {
  std::uint64_t workspace;
  std::uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
};
static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

constexpr std::uint64_t algorithms = 3;
constexpr std::size_t workspace_of_algorithm = std::size_t{1} << 20;

template <class T, class Opaque>
[[nodiscard]] T get(Opaque const* from) {
  T out;
  return std::memcpy(&out, from, sizeof out), out;
}
template <class T, class Opaque>
void put(Opaque* to, T const& value) {
  *to = {};
  std::memcpy(to, &value, sizeof value);
}

[[nodiscard]] float load(layout const& matrix, void const* data, std::int64_t row,
                         std::int64_t column) {
  std::int64_t const offset = column * matrix.leading + row;
  return matrix.type == CUDA_R_16BF
             ? static_cast<float>(static_cast<parallel::bf16 const*>(data)[offset])
             : static_cast<float const*>(data)[offset];
}
void store(layout const& matrix, void* data, std::int64_t row, std::int64_t column, float value) {
  std::int64_t const offset = column * matrix.leading + row;
  if (matrix.type == CUDA_R_16BF)
    static_cast<parallel::bf16*>(data)[offset] = static_cast<parallel::bf16>(value);
  else
    static_cast<float*>(data)[offset] = value;
}

/// Rows and columns of op(X).
[[nodiscard]] std::pair<std::int64_t, std::int64_t> extents(layout const& matrix,
                                                            cublasOperation_t transpose) {
  return transpose == CUBLAS_OP_N ? std::pair(matrix.rows, matrix.columns)
                                  : std::pair(matrix.columns, matrix.rows);
}

struct product {
  description operation;
  layout a, b, c, d;

  [[nodiscard]] bool fits() const {
    auto const [m, k] = extents(a, operation.transpose_a);
    auto const [k_of_b, n] = extents(b, operation.transpose_b);
    auto const packed = [](layout const& x) { return x.leading >= x.rows && x.rows > 0; };
    return operation.compute == CUBLAS_COMPUTE_32F && operation.scale == CUDA_R_32F &&
           k == k_of_b && d.rows == m && d.columns == n && c.rows == m && c.columns == n &&
           a.type == b.type && c.type == d.type && packed(a) && packed(b) && packed(c) &&
           packed(d) &&
           (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT || operation.bias != nullptr) &&
           (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
            operation.epilogue == CUBLASLT_EPILOGUE_BIAS ||
            operation.epilogue == CUBLASLT_EPILOGUE_BGRADB);
  }
  /// The layout of a bias, with an element of D's type for each row of D, or of the bias gradient
  /// that BGRADB computes, with an element for each column.
  [[nodiscard]] layout bias_layout() const {
    auto const count = operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.columns : d.rows;
    return {d.type, count, 1, count};
  }

  void run(void* result, void const* from_a, void const* from_b, void const* from_c, float alpha,
           float beta, std::uint64_t algorithm) const {
    std::int64_t const m = d.rows, k = extents(a, operation.transpose_a).second;
    auto const left = [&](std::int64_t i, std::int64_t inner) {
      return operation.transpose_a == CUBLAS_OP_N ? load(a, from_a, i, inner)
                                                  : load(a, from_a, inner, i);
    };
    auto const right = [&](std::int64_t inner, std::int64_t j) {
      return operation.transpose_b == CUBLAS_OP_N ? load(b, from_b, inner, j)
                                                  : load(b, from_b, j, inner);
    };
    std::vector<float> lefts(static_cast<std::size_t>(m * k));  // op(A), column by column
    for (std::int64_t inner = 0; inner < k; ++inner)
      for (std::int64_t i = 0; i < m; ++i)
        lefts[static_cast<std::size_t>(inner * m + i)] = left(i, inner);
    // The sums of one column of D at a time; the algorithm decides the order of the addends.
    std::vector<float> sums(static_cast<std::size_t>(2 * m));
    for (std::int64_t j = 0; j < d.columns; ++j) {
      std::ranges::fill(sums, 0.0F);
      float sums_of_b[2] = {};
      for (std::int64_t position = 0; position < k; ++position) {
        std::int64_t const inner = algorithm == 1 ? k - 1 - position : position;
        std::int64_t const part = algorithm == 2 ? position % 2 : 0;
        float const factor = right(inner, j);
        float* const to_sums = sums.data() + part * m;
        float const* const factors = lefts.data() + inner * m;
        for (std::int64_t i = 0; i < m; ++i) to_sums[i] += factors[i] * factor;
        sums_of_b[part] += factor;
      }
      // BGRADB overwrites the bias gradient for every beta.
      if (operation.epilogue == CUBLASLT_EPILOGUE_BGRADB)
        store(bias_layout(), operation.bias, j, 0, sums_of_b[0] + sums_of_b[1]);
      for (std::int64_t i = 0; i < m; ++i) {
        auto const row = static_cast<std::size_t>(i);
        float value = alpha * (sums[row] + sums[row + static_cast<std::size_t>(m)]);
        if (beta != 0) value += beta * load(c, from_c, i, j);
        if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
          value += load(bias_layout(), operation.bias, i, 0);
        store(d, result, i, j, value);
      }
    }
  }
};

/// The product that descriptors describe.
[[nodiscard]] product product_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                 cublasLtMatrixLayout_t d) {
  return {get<description>(operation), get<layout>(a), get<layout>(b), get<layout>(c),
          get<layout>(d)};
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  static int library;
  *out = reinterpret_cast<cublasLtHandle_t>(&library);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
char const* cublasLtGetStatusName(cublasStatus_t) { return "a status of the fake cuBLASLt"; }
char const* cublasLtGetStatusString(cublasStatus_t) { return "what it was asked does not fit"; }
std::size_t cublasLtGetVersion() { return 1; }

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, std::size_t,
                                                 cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t leading) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  put(out,
      layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, std::size_t,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  put(out,
      description{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void const* value, std::size_t bytes) {
  auto operation = get<description>(to);
  auto const set_field = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return put(to, operation), CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set_field(operation.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set_field(operation.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set_field(operation.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set_field(operation.bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, std::size_t) {
  put(out, preference{0, 256, 256, 256, 256});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value, std::size_t bytes) {
  if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return CUBLAS_STATUS_SUCCESS;
  auto wanted = get<preference>(to);
  if (bytes != sizeof wanted.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&wanted.workspace, value, bytes);
  return put(to, wanted), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int max_count,
                                              cublasLtMatmulHeuristicResult_t* out, int* count) {
  *count = 0;
  if (!product_of(operation, a, b, c, d).fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (get<preference>(wanted).workspace < workspace_of_algorithm)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(max_count, static_cast<int>(algorithms));
  for (int i = 0; i < *count; ++i) {
    out[i] = {};
    out[i].state = CUBLAS_STATUS_SUCCESS;
    out[i].workspaceSize = workspace_of_algorithm;
    out[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       cublasLtMatmulAlgo_t const* algorithm,
                                       cublasLtMatmulHeuristicResult_t* out) {
  if (!product_of(operation, a, b, c, d).fits() || algorithm->data[0] >= algorithms)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  out->workspaceSize = workspace_of_algorithm;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, void const* alpha,
                              void const* a, cublasLtMatrixLayout_t layout_a, void const* b,
                              cublasLtMatrixLayout_t layout_b, void const* beta, void const* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              cublasLtMatmulAlgo_t const* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  auto const multiplication = product_of(operation, layout_a, layout_b, layout_c, layout_d);
  if (!multiplication.fits() || algorithm->data[0] >= algorithms ||
      workspace_bytes < workspace_of_algorithm)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto const factor = *static_cast<float const*>(alpha), addend = *static_cast<float const*>(beta);
  auto const status = fake_cuda::enqueue(
      stream, "cublasLtMatmul",
      [=, device = fake_cuda::device_of(stream), algorithm_number = algorithm->data[0]] {
        fake_cuda::require_access(device, a, multiplication.a.bytes(), "A");
        fake_cuda::require_access(device, b, multiplication.b.bytes(), "B");
        fake_cuda::require_access(device, d, multiplication.d.bytes(), "D");
        if (addend != 0) fake_cuda::require_access(device, c, multiplication.c.bytes(), "C");
        fake_cuda::require_access(device, workspace, workspace_bytes, "the workspace");
        // Destroys what the workspace held.
        for (std::size_t const offset : {std::size_t{0}, workspace_bytes - 256})
          std::memset(static_cast<std::byte*>(workspace) + offset, 0x5a, 256);
        if (multiplication.operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
          fake_cuda::require_access(device, multiplication.operation.bias,
                                    multiplication.bias_layout().bytes(), "the bias");
        multiplication.run(d, a, b, c, factor, addend, algorithm_number);
      });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
