// attention on the host: float and bf16 in SIMD by blocks, parallel over (sequence, head) and, if
// those are few, over blocks of queries; other types run the reference loops on the worker.
//
// Results do not depend on the number of threads. Scratch (see detail/attention_*.hpp) is in the
// stream's workspace. The backward pass is parallel over (sequence, key head) only, so that
// gradients of keys are summed in one place and in one order. Forward and backward together run at
// 84 GF/s of causal operations on one core whose peak is 117 (Zen 4, float or bf16, S = 2048, D =
// 64), and at 54 to 60 for S = 256, D = 32; AMX makes bf16 several times faster. Dropout of
// probabilities makes it 4 to 6 times slower with SIMD registers: it needs one Philox block per
// pair.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/host/detail/attention_backward.hpp>
#include <parallel/ops/host/detail/attention_forward.hpp>
#include <parallel/ops/host/detail/scratch.hpp>

namespace parallel::host {

namespace detail {

/// Runs `kernel` for `lanes` (see simd::dispatch_to); products of bf16 pairs exist for 16 lanes
/// only.
template <class E, class Kernel>
void dispatch_attention(int lanes, Kernel const& kernel) {
  if constexpr (std::is_same_v<E, float>)
    simd::dispatch_to(lanes, kernel);
  else
    simd::detail::run_avx512(kernel);
}

template <class T, class E, class O>
void run_attention(attention_forward<T, E, O> const& pass, workspace& memory, int threads,
                   int lanes = simd::native_lanes()) {
  auto const& q = pass.q;
  index const heads = q.batch * q.heads;
  // each part copies the keys it needs again, so there are no more parts than threads can use
  index const blocks = (q.sequence + attention_queries - 1) / attention_queries;
  index const parts = heads >= 2 * threads ? 1 : std::min<index>(blocks, 4 * threads);
  index const share = (blocks + parts - 1) / parts * attention_queries;
  using space_type = typename attention_forward<T, E, O>::space;
  with_scratch<space_type>(
      memory, threads, heads * parts,
      [&](index task, space_type& space) {
        index const part = parts - 1 - task / heads;  // the longest part first
        index const head = task % heads;
        index const begin = part * share;
        if (begin >= q.sequence) return;
        dispatch_attention<E>(
            lanes, [&](auto width) __attribute__((always_inline)) {
              pass.template run<width>(head / q.heads, head % q.heads, begin,
                                       std::min(begin + share, q.sequence), space);
            });
      },
      pass.k.sequence, pass.width());
}

template <class T, class E, bool Extends>
void run_attention(attention_backward<T, E, Extends> const& pass, workspace& memory, int threads,
                   int lanes = simd::native_lanes()) {
  index const heads = pass.k.heads;
  using space_type = typename attention_backward<T, E, Extends>::space;
  with_scratch<space_type>(
      memory, threads, pass.k.batch * heads,
      [&](index task, space_type& space) {
        dispatch_attention<E>(
            lanes, [&](auto width) __attribute__((always_inline)) {
              pass.template run<width>(task / heads, task % heads, space);
            });
      },
      pass.k.sequence, pass.width());
}

/// Runs `pass<float>`, or `pass<bf16_pair>` if T is bf16 and the processor multiplies such pairs.
template <class T, class Pass>
void with_operands(Pass const& pass) {
  if constexpr (std::is_same_v<T, bf16>)
    if (multiplies_pairs()) return pass(bf16_pair{});
  pass(float{});
}

}  // namespace detail

template <class T, bool Extends>
void run_operation(stream& s, ops::basic_attention_arguments<T, Extends> const& a) {
  using O = ops::detail::attention_result_t<T, Extends>;
  s.enqueue({a.name}, [=, &s] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>)
      detail::with_operands<T>([&](auto element) {
        detail::run_attention(
            detail::attention_forward<T, decltype(element), O>{a.out, a.lse, a.q, a.k, a.v,
                                                               a.options, Extends},
            s.memory(), s.threads());
      });
    else
      ops::compute(a);
  });
}

template <class T, bool Extends>
void run_operation(stream& s, ops::basic_attention_backward_arguments<T, Extends> const& a) {
  s.enqueue({a.name}, [=, &s] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>)
      detail::with_operands<T>([&](auto element) {
        detail::run_attention(detail::attention_backward<T, decltype(element), Extends>{a},
                              s.memory(), s.threads());
      });
    else
      ops::compute(a);
  });
}

}  // namespace parallel::host
