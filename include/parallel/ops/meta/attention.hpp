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
                                              index window) {
  return 2 * static_cast<std::uint64_t>(q.batch * q.heads * q.head_dim) *
         static_cast<std::uint64_t>(ops::detail::causal_pairs(q.sequence, keys, window));
}
}  // namespace detail

template <class T>
void attention_impl(stream& s, ops::heads_view<T>, tensor_view<accumulate_t<T>, 3>,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const>, ops::attention_options options) {
  s.count(2 * detail::attention_product(q, k.sequence, options.window));
}

template <class T>
void attention_backward_impl(stream& s, ops::heads_view<T>, ops::heads_view<T>, ops::heads_view<T>,
                             ops::heads_view<T const>, ops::heads_view<T const> q,
                             ops::heads_view<T const> k, ops::heads_view<T const>,
                             ops::heads_view<T const>, tensor_view<accumulate_t<T> const, 3>,
                             ops::attention_options options) {
  s.count(5 * detail::attention_product(q, k.sequence, options.window));
}

}  // namespace parallel::meta
