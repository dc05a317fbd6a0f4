// Causal attention: out_i = sum_j dropout(softmax_j(cap(scale q_i·k_j) - slope (i - j))) v_j over
// the keys [first(i), i] that query i sees, without ever storing S x S numbers.
//
// first(i) is 0, or later where a window or the start of a packed document requires it; blocks of
// keys that no query of a block sees cost nothing. slope is the slope of ALiBi. cap(s) = c tanh(s /
// c) if softcap is set (Gemma 2, 2024); it is applied before ALiBi.
//
// Dao et al., "FlashAttention", 2022, and "FlashAttention-2", 2023: blocks of keys with a running
// maximum and sum; the backward pass recomputes the probabilities from `lse`, one number per row
// and head. Press et al., "Train short, test long" (ALiBi), 2021. With H query heads and KV key
// heads, query head h uses key head h / (H / KV). There may be fewer queries than keys: query i
// then has position keys - queries + i, as in decoding with a cache. Or queries and keys are any
// parts of a sequence (`positions`); then a query that sees none of the given keys gets the result
// 0 and the lse -infinity. T is float, bf16 or double; statistics and sums are in accumulate_t<T>.
// With P = the number of pairs (i, j) seen, over batch and heads: 4 P head_dim operations forward,
// 10 P head_dim backward. Memory: lse, and the scratch space that the device's header states.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/attention/attention_options.hpp>
#include <parallel/ops/detail/attention_loops.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

namespace detail {

/// A view that an operation overwrites, or changes if it Extends a result over other keys.
template <bool Extends, class View>
[[nodiscard]] auto attention_result(View const& view) {
  if constexpr (Extends)
    return updates(view);
  else
    return view;
}

}  // namespace detail

/// Extends: out and lse are changed to those over more keys (extend_attention.hpp).
template <class T, bool Extends>
struct basic_attention_arguments {
  static constexpr char const* name = Extends ? "extend_attention" : "attention";
  heads_view<detail::attention_result_t<T, Extends>> out;
  tensor_view<accumulate_t<T>, 3> lse;
  heads_view<T const> q;
  heads_view<T const> k;
  heads_view<T const> v;
  attention_options options;

  [[nodiscard]] auto operands() const {
    return std::tuple(detail::attention_result<Extends>(out),
                      detail::attention_result<Extends>(lse), q, k, v);
  }
  /// Two matrix products over the pairs (query, key) that see each other.
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * detail::attention_product(q, k.sequence, options);
  }
  [[nodiscard]] index parts() const { return q.batch * q.heads; }
  void compute(index head) const { detail::attend(head, out, lse, q, k, v, options, Extends); }
};
template <class T>
using attention_arguments = basic_attention_arguments<T, false>;

struct attention_fn {
  template <class Stream, class T, class Q, class K, class V>
  void operator()(Stream& s, heads_view<T> out, tensor_view<accumulate_t<T>, 3> lse,
                  heads_view<Q> q, heads_view<K> k, heads_view<V> v,
                  attention_options options = {}) const {
    static_assert(std::is_same_v<Q const, T const> && std::is_same_v<K const, T const> &&
                      std::is_same_v<V const, T const>,
                  "attention: out, q, k and v must have the same element type");
    detail::check_attention("attention", q, k, v, options);
    detail::check_heads("attention", "out", out, q, q.sequence, q.heads);
    if (out.size() == 0) return;
    if (!lse.empty()) detail::check_lse("attention", lse, q);
    run_operation(s,
                  attention_arguments<T>{out, lse, heads_view<T const>(q), heads_view<T const>(k),
                                         heads_view<T const>(v), options});
  }
};
/// attention(s, out, lse, q, k, v, {.scale, .alibi_slopes, ...}): out [B, Sq, H, D] from q [B, Sq,
/// H, D] and k, v [B, Sk, KV, D]; lse [B, H, Sq] receives log(sum_j exp(score_ij)) for the backward
/// pass, or is empty. out may overlap q, but no other argument. Throws `error` before anything is
/// enqueued when the shapes do not fit.
inline constexpr attention_fn attention{};

/// The gradients dq, dk and dv for dout, the gradient of `out`, given the arguments and results of
/// `attention`. Extends: they are over these keys alone, and are added (extend_attention.hpp).
template <class T, bool Extends>
struct basic_attention_backward_arguments {
  static constexpr char const* name = Extends ? "extend_attention_backward" : "attention_backward";
  heads_view<detail::attention_result_t<T, Extends>> dq;
  heads_view<detail::attention_result_t<T, Extends>> dk;
  heads_view<detail::attention_result_t<T, Extends>> dv;
  heads_view<T const> dout;
  heads_view<T const> q;
  heads_view<T const> k;
  heads_view<T const> v;
  heads_view<T const> out;
  tensor_view<accumulate_t<T> const, 3> lse;
  attention_options options = {};

  [[nodiscard]] auto operands() const {
    return std::tuple(detail::attention_result<Extends>(dq), detail::attention_result<Extends>(dk),
                      detail::attention_result<Extends>(dv), dout, q, k, v, out, lse);
  }
  /// Five matrix products over the pairs that see each other.
  [[nodiscard]] std::uint64_t flops() const {
    return 5 * detail::attention_product(q, k.sequence, options);
  }
  [[nodiscard]] index parts() const { return k.batch * k.heads; }
  void compute(index head) const { detail::attend_backward(head, *this); }
  /// Throws `error` unless the gradients and results have the shapes of q and k.
  void check() const {
    detail::check_attention(name, q, k, v, options);
    detail::check_heads(name, "dq", dq, q, q.sequence, q.heads);
    detail::check_heads(name, "dk", dk, q, k.sequence, k.heads);
    detail::check_heads(name, "dv", dv, q, k.sequence, k.heads);
    detail::check_heads(name, "dout", dout, q, q.sequence, q.heads);
    detail::check_heads(name, "out", out, q, q.sequence, q.heads);
  }
};
template <class T>
using attention_backward_arguments = basic_attention_backward_arguments<T, false>;

struct attention_backward_fn {
  template <class Stream, class T>
  void operator()(Stream& s, attention_backward_arguments<T> const& a) const {
    a.check();
    if (a.dk.size() == 0) return;
    detail::check_lse(a.name, a.lse, a.q);
    run_operation(s, a);
  }
};
/// attention_backward(s, attention_backward_arguments<T>{.dq = ..., .dk = ..., ...}): dq, dk and dv
/// are overwritten; they may be parts of one packed matrix, but must not overlap the inputs. The
/// result is deterministic, except on devices where that is slow: there the stream's options choose
/// (cuda::stream_options).
inline constexpr attention_backward_fn attention_backward{};

}  // namespace parallel::ops
