// matmul_engine: the interface to a library of matrix products on the host, as cuBLAS is one on a
// CUDA device.
//
// A product costs one virtual call. Implementations are in parallel/ops/host (onednn, cblas). A
// stream without an engine multiplies in plain loops.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/host/workspace.hpp>

namespace parallel::host {

/// C[m,n] = op(A) op(B) + addend, all row-major; op transposes if transpose_a or transpose_b is
/// set. A and B have one element type; C may have a wider one (bf16 inputs, f32 result). The
/// product accumulates in accumulate_t.
struct matmul_arguments {
  index m = 0;
  index n = 0;
  index k = 0;
  void const* a = nullptr;  ///< [m,k], or [k,m] when transposed
  void const* b = nullptr;  ///< [k,n], or [n,k] when transposed
  void* c = nullptr;        ///< [m,n]
  index lda = 0;            ///< elements from one stored row to the next
  index ldb = 0;
  index ldc = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  void const* addend = nullptr;  ///< [m,n] of C's type, its rows ldc apart; C itself; or none
  dtype input = dtype::f32;
  dtype output = dtype::f32;
  int threads = 1;
  /// One of many products that differ in m, n and k, as those of experts do: nothing is made for
  /// its shape that outlives it.
  bool varies = false;
};

class matmul_engine {
 public:
  virtual ~matmul_engine() = default;

  /// Whether `multiply` takes these element types (f32·f32→f32, bf16·bf16→bf16 or f32).
  [[nodiscard]] virtual bool supports(dtype input, dtype output) const = 0;

  /// Whether threads may multiply at the same time, each with `threads` 1 and memory of its own.
  [[nodiscard]] virtual bool serves_threads() const { return false; }

  /// Computes the product on the calling thread and `threads - 1` helpers, and returns when it is
  /// complete. May use `memory` until then.
  virtual void multiply(matmul_arguments const& arguments, workspace& memory) const = 0;
};

}  // namespace parallel::host
