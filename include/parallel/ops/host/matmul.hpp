// matmul on the host: the stream's engine if it supports the types, else our own product: by the
// matrix unit or in SIMD (float, bf16), or the reference loops (double, uint64), parallel over
// rows.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/detail/gemm.hpp>
#include <parallel/ops/host/detail/gemm_amx.hpp>
#include <parallel/ops/host/detail/gemm_narrow.hpp>
#include <parallel/ops/host/matrix_unit.hpp>
#include <parallel/ops/host/parallel_for.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel::host {

namespace detail {

template <class C, class T>
void multiply_plain(workspace& memory, matmul_arguments const& p) {
  auto const view = [](void const* data, bool transpose, index ld) {
    return operand<T>{static_cast<T const*>(data), transpose ? 1 : ld, transpose ? ld : 1};
  };
  auto const a = view(p.a, p.transpose_a, p.lda);
  auto const b = view(p.b, p.transpose_b, p.ldb);
  auto* const c = static_cast<C*>(p.c);
  auto* const addend = static_cast<C const*>(p.addend);
  if (p.m <= gemm_narrow<T, C>::max_rows && !p.varies)
    gemm_narrow<T, C>{p.n, p.k, a, b, c, p.ldc, addend}(memory, p.m, p.threads);
  else if (p.k > 0 && has_matrix_unit())
    gemm_amx<T, C>{p.m, p.n, p.k, a, b, c, p.ldc, addend}(memory, p.threads);
  else
    gemm<T, C>{p.m, p.n, p.k, a, b, c, p.ldc, addend}(memory, p.threads);
}

/// The arguments of a product for engines.
template <class C, class T>
[[nodiscard]] matmul_arguments engine_arguments(ops::matmul_arguments<C, T> const& a, int threads) {
  return {.m = a.c.extent(0),
          .n = a.c.extent(1),
          .k = a.a.extent(a.options.transpose_a ? 0 : 1),
          .a = a.a.data(),
          .b = a.b.data(),
          .c = a.c.data(),
          .lda = a.a.extent(1),
          .ldb = a.b.extent(1),
          .ldc = a.c.extent(1),
          .transpose_a = a.options.transpose_a,
          .transpose_b = a.options.transpose_b,
          .addend = a.options.accumulate ? a.addend.data() : nullptr,
          .input = dtype_of<T>,
          .output = dtype_of<C>,
          .threads = threads};
}

/// Computes a product of float or bf16: by the engine if there is one for the types.
template <class C, class T>
void multiply(matmul_engine const* engine, workspace& memory, matmul_arguments const& p) {
  if (engine != nullptr && p.k > 0 && engine->supports(p.input, p.output))
    engine->multiply(p, memory);
  else
    multiply_plain<C, T>(memory, p);
}

/// Computes a product on the calling thread and helper threads.
template <class C, class T>
void multiply(matmul_engine const* engine, workspace& memory, int threads,
              ops::matmul_arguments<C, T> const& a) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>)
    multiply<C, T>(engine, memory, engine_arguments(a, threads));
  else
    parallel_for(threads, a.c.extent(0), 8, [&](index begin, index end) {
      ops::detail::matmul_rows(begin, end, a.c, a.a, a.b, a.options, a.addend);
    });
}

}  // namespace detail

template <class C, class T>
void run_operation(stream& s, ops::matmul_arguments<C, T> const& a) {
  if (a.c.empty()) return;
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    detail::multiply(s.engine(), s.memory(), threads, a);
  });
}

}  // namespace parallel::host
