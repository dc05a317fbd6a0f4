// extend_attention: attention over the keys of a sequence part by part, as they arrive on this
// rank.
//
// The result over some keys and its lse are sufficient to continue with other keys: out' = (e^lse
// out + sum_j e^score_j v_j) / (e^lse + sum_j e^score_j) (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018; Liu et al., "Ring Attention", 2023). So the parts may
// come in any order, and results are stored in accumulate_t<T> until the last part. The backward
// pass needs only the final lse and result, and is a sum over the parts.
// `attention_options::positions` states the queries and keys of a call. Operations as for
// `attention`; no extra memory.
#pragma once

#include <parallel/ops/attention.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

template <class T>
using extend_attention_arguments = basic_attention_arguments<T, true>;

struct extend_attention_fn {
  template <class Stream, class A, class T, class K, class V>
  void operator()(Stream& s, heads_view<A> out, tensor_view<A, 3> lse, heads_view<T> q,
                  heads_view<K> k, heads_view<V> v, attention_options options) const {
    using element = std::remove_const_t<T>;
    static_assert(std::is_same_v<A, accumulate_t<element>> &&
                      std::is_same_v<K const, element const> &&
                      std::is_same_v<V const, element const>,
                  "extend_attention: q, k and v must have the same element type, and out the type "
                  "in which it is accumulated");
    constexpr auto name = "extend_attention";
    detail::check_attention(name, q, k, v, options);
    detail::check_heads(name, "out", out, q, q.sequence, q.heads);
    detail::check_lse(name, lse, q);
    if (out.size() == 0) return;
    run_operation(s, extend_attention_arguments<element>{out, lse, heads_view<element const>(q),
                                                         heads_view<element const>(k),
                                                         heads_view<element const>(v), options});
  }
};
/// extend_attention(s, out, lse, q, k, v, options): changes out [B, Sq, H, D] and lse [B, H, Sq],
/// which are over some keys, to those over k and v as well. Where lse is -infinity, out counts as 0
/// and is not read: this is the state before the first part. out is of accumulate_t<T> and overlaps
/// no other argument.
inline constexpr extend_attention_fn extend_attention{};

template <class T>
using extend_attention_backward_arguments = basic_attention_backward_arguments<T, true>;

struct extend_attention_backward_fn {
  template <class Stream, class T>
  void operator()(Stream& s, extend_attention_backward_arguments<T> const& a) const {
    a.check();
    detail::check_lse(a.name, a.lse, a.q);
    if (a.dk.size() == 0) return;
    run_operation(s, a);
  }
};
/// extend_attention_backward(s, extend_attention_backward_arguments<T>{.dq = ..., ...}): adds to
/// dq, dk and dv (of accumulate_t<T>) the contributions of the pairs of these queries and keys,
/// given the result over all keys, rounded to T, and its lse. The result is deterministic; on
/// devices where that is slow, only if the stream is.
inline constexpr extend_attention_backward_fn extend_attention_backward{};

}  // namespace parallel::ops
