// gemm_narrow: a matrix product with at most four rows, as in generating one token. It reads B once
// and does not copy it.
//
// Copying B into panels, as the blocked product does, would cost more than the product itself. The
// speed is limited by reading B from memory. Columns are divided into blocks of 64, each computed
// by one thread, so results do not depend on the number of threads. Scratch: m k floats.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/ops/host/detail/operand.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/parallel_for.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

template <class T, class C>
struct gemm_narrow {
  index n = 0, k = 0;
  operand<T> a, b;
  C* c = nullptr;
  index ldc = 0;
  C const* addend =
      nullptr;  // added to the product if not null; has leading dimension ldc; may be c

  static constexpr index max_rows = 4;
  static constexpr index block_n = 64;

  /// Computes columns [begin, end) for M rows; `left` is op(A) [M, k] in floats.
  template <int L, int M>
  [[gnu::always_inline]] void columns(float const* left, index begin, index end) const {
    if (b.row == 1)
      for (index j = begin; j < end; ++j) dot<L, M>(left, j);
    else
      for (index j = begin; j < end; j += 2 * L) rows<L, M>(left, j, end - j);
  }

  /// Computes column j of C; B is stored transposed, so that the column is contiguous.
  template <int L, int M>
  [[gnu::always_inline]] void dot(float const* left, index j) const {
    using floats = simd::pack<float, L>;
    T const* const column = b.data + j * b.column;
    floats sum[2 * M];
    for (int i = 0; i < 2 * M; ++i) sum[i] = floats(0.0F);
    index p = 0;
    for (; p + 2 * L <= k; p += 2 * L) {
      floats const first = simd::load<L>(column + p);
      floats const second = simd::load<L>(column + p + L);
      for (int i = 0; i < M; ++i) {
        sum[2 * i] = simd::fma(first, simd::load<L>(left + i * k + p), sum[2 * i]);
        sum[2 * i + 1] = simd::fma(second, simd::load<L>(left + i * k + p + L), sum[2 * i + 1]);
      }
    }
    for (; p < k; p += L) {
      floats const first = simd::load_partial<L>(column + p, k - p);
      for (int i = 0; i < M; ++i)
        sum[2 * i] = simd::fma(first, simd::load_partial<L>(left + i * k + p, k - p), sum[2 * i]);
    }
    for (int i = 0; i < M; ++i) {
      C* const to = c + i * ldc + j;
      float total = simd::sum(sum[2 * i] + sum[2 * i + 1]);
      if (addend != nullptr) total += static_cast<float>(addend[to - c]);
      *to = static_cast<C>(total);
    }
  }

  /// Computes two registers of columns of C over all of k; B is not transposed.
  template <int L, int M>
  [[gnu::always_inline]] void rows(float const* left, index j, index count) const {
    using floats = simd::pack<float, L>;
    floats sum[2 * M];
    for (int i = 0; i < 2 * M; ++i) sum[i] = floats(0.0F);
    for (index p = 0; p < k; ++p) {
      T const* const row = b.data + p * b.row + j;
      floats const first = simd::load_partial<L>(row, count);
      floats const second = simd::load_partial<L>(row + L, count - L);
      for (int i = 0; i < M; ++i) {
        floats const factor(left[i * k + p]);
        sum[2 * i] = simd::fma(factor, first, sum[2 * i]);
        sum[2 * i + 1] = simd::fma(factor, second, sum[2 * i + 1]);
      }
    }
    for (int i = 0; i < M; ++i)
      for (int half = 0; half < 2; ++half) {
        C* const to = c + i * ldc + j + half * L;
        auto total = sum[2 * i + half];
        if (addend != nullptr) total += simd::load_partial<L>(addend + (to - c), count - half * L);
        simd::store_partial(to, total, count - half * L);
      }
  }

  /// Computes C for m in [1, 4] rows. `lanes`: see simd::dispatch_to.
  void operator()(workspace& memory, index m, int threads, int lanes = simd::native_lanes()) const {
    if (m == 1) return run<1>(memory, threads, lanes);
    if (m == 2) return run<2>(memory, threads, lanes);
    if (m == 3) return run<3>(memory, threads, lanes);
    return run<4>(memory, threads, lanes);
  }

 private:
  template <int M>
  void run(workspace& memory, int threads, int lanes) const {
    float* const left = scratch_array<float>(memory, M * k);
    for (index i = 0; i < M; ++i)
      for (index p = 0; p < k; ++p)
        left[i * k + p] = static_cast<float>(a.data[i * a.row + p * a.column]);
    parallel_for(threads, n, block_n, [&](index begin, index end) {
      simd::dispatch_to(
          lanes, [&](auto width)
                     __attribute__((always_inline)) { columns<width, M>(left, begin, end); });
    });
  }
};

}  // namespace parallel::host::detail
