// A cuBLASLt that is only fake, on the fake CUDA runtime: it multiplies by the layouts, transposes,
// factors and epilogues that it was given, one sum in float after the other. It offers three
// algorithms for every product, which add in different orders: who takes another finds other bits.
// Its workspace is overwritten, at both ends. What the library never asks for is refused.
#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
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

[[nodiscard]] float load(layout const& of, void const* data, std::int64_t row,
                         std::int64_t column) {
  std::int64_t const at = column * of.leading + row;
  return of.type == CUDA_R_16BF ? static_cast<float>(static_cast<parallel::bf16 const*>(data)[at])
                                : static_cast<float const*>(data)[at];
}
void store(layout const& of, void* data, std::int64_t row, std::int64_t column, float value) {
  std::int64_t const at = column * of.leading + row;
  if (of.type == CUDA_R_16BF)
    static_cast<parallel::bf16*>(data)[at] = static_cast<parallel::bf16>(value);
  else
    static_cast<float*>(data)[at] = value;
}

/// Rows and columns of op(X).
[[nodiscard]] std::pair<std::int64_t, std::int64_t> extents(layout const& of,
                                                            cublasOperation_t transpose) {
  return transpose == CUBLAS_OP_N ? std::pair(of.rows, of.columns) : std::pair(of.columns, of.rows);
}

struct product {
  description how;
  layout a, b, c, d;

  [[nodiscard]] bool fits() const {
    auto const [m, k] = extents(a, how.transpose_a);
    auto const [k_of_b, n] = extents(b, how.transpose_b);
    auto const packed = [](layout const& x) { return x.leading >= x.rows && x.rows > 0; };
    return how.compute == CUBLAS_COMPUTE_32F && how.scale == CUDA_R_32F && k == k_of_b &&
           d.rows == m && d.columns == n && c.rows == m && c.columns == n && a.type == b.type &&
           c.type == d.type && packed(a) && packed(b) && packed(c) && packed(d) &&
           (how.epilogue == CUBLASLT_EPILOGUE_DEFAULT || how.bias != nullptr) &&
           (how.epilogue == CUBLASLT_EPILOGUE_DEFAULT || how.epilogue == CUBLASLT_EPILOGUE_BIAS ||
            how.epilogue == CUBLASLT_EPILOGUE_BGRADB);
  }
  /// A bias, or its gradient: of D's type, a number for each row of D, or of the gradient of B for
  /// each column.
  [[nodiscard]] layout of_bias() const {
    auto const count = how.epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.columns : d.rows;
    return {d.type, count, 1, count};
  }

  void run(void* to, void const* from_a, void const* from_b, void const* from_c, float alpha,
           float beta, std::uint64_t algorithm) const {
    std::int64_t const m = d.rows, k = extents(a, how.transpose_a).second;
    auto const left = [&](std::int64_t i, std::int64_t at) {
      return how.transpose_a == CUBLAS_OP_N ? load(a, from_a, i, at) : load(a, from_a, at, i);
    };
    auto const right = [&](std::int64_t at, std::int64_t j) {
      return how.transpose_b == CUBLAS_OP_N ? load(b, from_b, at, j) : load(b, from_b, j, at);
    };
    std::vector<float> lefts(static_cast<std::size_t>(m * k));  // a column of op(A) after the other
    for (std::int64_t at = 0; at < k; ++at)
      for (std::int64_t i = 0; i < m; ++i)
        lefts[static_cast<std::size_t>(at * m + i)] = left(i, at);
    // Sums of products in an order that the algorithm decides, for a column of D at once.
    std::vector<float> sums(static_cast<std::size_t>(2 * m));
    for (std::int64_t j = 0; j < d.columns; ++j) {
      std::ranges::fill(sums, 0.0F);
      float sums_of_b[2] = {};
      for (std::int64_t number = 0; number < k; ++number) {
        std::int64_t const at = algorithm == 1 ? k - 1 - number : number;
        std::int64_t const part = algorithm == 2 ? number % 2 : 0;
        float const factor = right(at, j);
        float* const to_sums = sums.data() + part * m;
        float const* const factors = lefts.data() + at * m;
        for (std::int64_t i = 0; i < m; ++i) to_sums[i] += factors[i] * factor;
        sums_of_b[part] += factor;
      }
      if (how.epilogue == CUBLASLT_EPILOGUE_BGRADB)  // replaces what is there, whatever beta says
        store(of_bias(), how.bias, j, 0, sums_of_b[0] + sums_of_b[1]);
      for (std::int64_t i = 0; i < m; ++i) {
        auto const row = static_cast<std::size_t>(i);
        float value = alpha * (sums[row] + sums[row + static_cast<std::size_t>(m)]);
        if (beta != 0) value += beta * load(c, from_c, i, j);
        if (how.epilogue == CUBLASLT_EPILOGUE_BIAS) value += load(of_bias(), how.bias, i, 0);
        store(d, to, i, j, value);
      }
    }
  }
};

/// Whether an address is aligned as the algorithms were told.
[[nodiscard]] product product_of(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                 cublasLtMatrixLayout_t d) {
  return {get<description>(how), get<layout>(a), get<layout>(b), get<layout>(c), get<layout>(d)};
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
                                              cublasLtMatmulDescAttributes_t which,
                                              void const* value, std::size_t bytes) {
  auto how = get<description>(to);
  auto const take = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return put(to, how), CUBLAS_STATUS_SUCCESS;
  };
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(how.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(how.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(how.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(how.bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, std::size_t) {
  put(out, preference{0, 256, 256, 256, 256});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    void const* value, std::size_t bytes) {
  if (which != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return CUBLAS_STATUS_SUCCESS;
  auto wanted = get<preference>(to);
  if (bytes != sizeof wanted.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&wanted.workspace, value, bytes);
  return put(to, wanted), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t* out, int* count) {
  *count = 0;
  if (!product_of(how, a, b, c, d).fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (get<preference>(wanted).workspace < workspace_of_algorithm)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(most, static_cast<int>(algorithms));
  for (int i = 0; i < *count; ++i) {
    out[i] = {};
    out[i].state = CUBLAS_STATUS_SUCCESS;
    out[i].workspaceSize = workspace_of_algorithm;
    out[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t how,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       cublasLtMatmulAlgo_t const* algorithm,
                                       cublasLtMatmulHeuristicResult_t* out) {
  if (!product_of(how, a, b, c, d).fits() || algorithm->data[0] >= algorithms)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  out->workspaceSize = workspace_of_algorithm;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, void const* alpha,
                              void const* a, cublasLtMatrixLayout_t of_a, void const* b,
                              cublasLtMatrixLayout_t of_b, void const* beta, void const* c,
                              cublasLtMatrixLayout_t of_c, void* d, cublasLtMatrixLayout_t of_d,
                              cublasLtMatmulAlgo_t const* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t on) {
  auto const what = product_of(how, of_a, of_b, of_c, of_d);
  if (!what.fits() || algorithm->data[0] >= algorithms || workspace_bytes < workspace_of_algorithm)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto const factor = *static_cast<float const*>(alpha), addend = *static_cast<float const*>(beta);
  auto const status = fake_cuda::enqueue(
      on, "cublasLtMatmul", [=, device = fake_cuda::device_of(on), which = algorithm->data[0]] {
        fake_cuda::require_access(device, a, what.a.bytes(), "A");
        fake_cuda::require_access(device, b, what.b.bytes(), "B");
        fake_cuda::require_access(device, d, what.d.bytes(), "D");
        if (addend != 0) fake_cuda::require_access(device, c, what.c.bytes(), "C");
        fake_cuda::require_access(device, workspace, workspace_bytes, "the workspace");
        for (std::size_t const at : {std::size_t{0}, workspace_bytes - 256})
          std::memset(static_cast<std::byte*>(workspace) + at, 0x5a,
                      256);  // what lay there is gone
        if (what.how.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
          fake_cuda::require_access(device, what.how.bias, what.of_bias().bytes(), "the bias");
        what.run(d, a, b, c, factor, addend, which);
      });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
