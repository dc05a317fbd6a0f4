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
void attention_impl(stream& s, ops::heads_view<T>, tensor_view<accumulate_t<T>, 3>,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const>, ops::attention_options options) {
  s.count(2 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void attention_backward_impl(stream& s, ops::heads_view<T>, ops::heads_view<T>, ops::heads_view<T>,
                             ops::heads_view<T const>, ops::heads_view<T const> q,
                             ops::heads_view<T const> k, ops::heads_view<T const>,
                             ops::heads_view<T const>, tensor_view<accumulate_t<T> const, 3>,
                             ops::attention_options options) {
  s.count(5 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void extend_attention_impl(stream& s, ops::heads_view<accumulate_t<T>>,
                           tensor_view<accumulate_t<T>, 3>, ops::heads_view<T const> q,
                           ops::heads_view<T const> k, ops::heads_view<T const>,
                           ops::attention_options options) {
  s.count(2 * detail::attention_product(q, k.sequence, options));
}

template <class T>
void extend_attention_backward_impl(stream& s, ops::heads_view<accumulate_t<T>>,
                                    ops::heads_view<accumulate_t<T>>,
                                    ops::heads_view<accumulate_t<T>>, ops::heads_view<T const>,
                                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                                    ops::heads_view<T const>, ops::heads_view<T const>,
                                    tensor_view<accumulate_t<T> const, 3>,
                                    ops::attention_options options) {
  s.count(5 * detail::attention_product(q, k.sequence, options));
}

}  // namespace parallel::meta
