// Matrix products by a BLAS library with the C interface (OpenBLAS, BLIS, MKL, ...): float only.
//
// BLAS has no bf16; for bf16 the stream's own product is used. The interface has no parameter for
// the number of threads; libraries have separate functions for it, one of which is passed to
// the engine. Link with -lopenblas, -lblis or the like.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <limits>

#include <parallel/core/error.hpp>
#include <parallel/device/host/matmul_engine.hpp>

namespace parallel::host {

/// How the number of threads of the library is set.
struct cblas_options {
  /// Called before each product with the number of threads it may use, such as
  /// `openblas_set_num_threads`, `omp_set_num_threads` (libraries built with OpenMP) or a lambda
  /// that calls `bli_thread_set_num_threads`. Null: the library decides. If the setting applies to
  /// the whole process (OpenBLAS with pthreads), all streams should use the same number.
  void (*set_threads)(int) = nullptr;
};

/// Matrix products by a library with the interface of CBLAS.
class cblas_engine final : public matmul_engine {
 public:
  explicit cblas_engine(cblas_options options = {}) : options_(options) {}

  /// f32·f32→f32.
  [[nodiscard]] bool supports(dtype input, dtype output) const override {
    return input == dtype::f32 && output == dtype::f32;
  }

  /// Throws `error` when an extent exceeds what BLAS can count (a 32-bit int).
  void multiply(matmul_arguments const& p, workspace&) const override {
    if (p.m == 0 || p.n == 0) return;
    if (options_.set_threads != nullptr) options_.set_threads(p.threads);
    // BLAS can add to C only
    if (p.addend != nullptr && p.addend != p.c)
      for (index i = 0; i < p.m; ++i)
        std::copy_n(static_cast<float const*>(p.addend) + i * p.ldc, p.n,
                    static_cast<float*>(p.c) + i * p.ldc);
    cblas_sgemm(CblasRowMajor, transposed(p.transpose_a), transposed(p.transpose_b), size(p.m),
                size(p.n), size(p.k), /*alpha=*/1.0F, static_cast<float const*>(p.a), size(p.lda),
                static_cast<float const*>(p.b), size(p.ldb),
                /*beta=*/p.addend != nullptr ? 1.0F : 0.0F, static_cast<float*>(p.c), size(p.ldc));
  }

 private:
  [[nodiscard]] static CBLAS_TRANSPOSE transposed(bool yes) {
    return yes ? CblasTrans : CblasNoTrans;
  }

  [[nodiscard]] static int size(index extent) {
    require(extent <= std::numeric_limits<int>::max(), "a product has an extent of ", extent,
            ", but BLAS counts with 32-bit integers; use another engine, such as oneDNN");
    return static_cast<int>(extent);
  }

  cblas_options options_;
};

}  // namespace parallel::host
