// attention on the meta device: two products over the pairs seen forward, five backward. Where
// documents begin is data, which is not there: a sequence counts as one document.
#pragma once

#include <cstdint>

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/attention.hpp>

namespace parallel::meta {

namespace detail {
/// Operations of one product over all pairs (query, key) seen.
template <class T>
[[nodiscard]] std::uint64_t attention_product(ops::heads_view<T> const& q, index keys,
                                              ops::attention_options options) {
  ops::detail::placed_attention const placed(options, q.sequence, keys);
  return 2 * static_cast<std::uint64_t>(q.batch * q.heads * q.head_dim) *
         static_cast<std::uint64_t>(placed.pairs());
}
}  // namespace detail

template <class T>
void attention_impl(stream& s, ops::heads_view<T> y, tensor_view<accumulate_t<T>, 3> sums,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options options) {
  s.touch(y, sums, q, k, v);
  s.count(2 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void attention_backward_impl(stream& s, ops::heads_view<T> dq, ops::heads_view<T> dk,
                             ops::heads_view<T> dv, ops::heads_view<T const> dy,
                             ops::heads_view<T const> q, ops::heads_view<T const> k,
                             ops::heads_view<T const> v, ops::heads_view<T const> y,
                             tensor_view<accumulate_t<T> const, 3> sums,
                             ops::attention_options options) {
  s.touch(dq, dk, dv, dy, q, k, v, y, sums);
  s.count(5 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void extend_attention_impl(stream& s, ops::heads_view<accumulate_t<T>> y,
                           tensor_view<accumulate_t<T>, 3> sums, ops::heads_view<T const> q,
                           ops::heads_view<T const> k, ops::heads_view<T const> v,
                           ops::attention_options options) {
  s.touch(updates(y), updates(sums), q, k, v);
  s.count(2 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void extend_attention_backward_impl(
    stream& s, ops::heads_view<accumulate_t<T>> dq, ops::heads_view<accumulate_t<T>> dk,
    ops::heads_view<accumulate_t<T>> dv, ops::heads_view<T const> dy, ops::heads_view<T const> q,
    ops::heads_view<T const> k, ops::heads_view<T const> v, ops::heads_view<T const> y,
    tensor_view<accumulate_t<T> const, 3> sums, ops::attention_options options) {
  s.touch(updates(dq), updates(dk), updates(dv), dy, q, k, v, y, sums);
  s.count(5 * detail::attention_product(q, k.sequence, options));
}

}  // namespace parallel::meta
