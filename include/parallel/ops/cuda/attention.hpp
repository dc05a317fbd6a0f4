// Causal attention and its gradient on cuda::stream, for plain C++ compilers: declarations only.
//
// By a vendor's fused kernels where the program is linked with them and they can
// (attention_path.hpp says when, fused_attention.hpp how), by plain kernels otherwise. Slopes are
// numbers of the host, kept by stream::constants; beginnings of documents are memory of the device.
// head_dim is at most 256. Scratch of the plain kernels: one number a query and head in the
// backward pass. See activation.hpp for how this is linked.
#pragma once

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/extend_attention.hpp>

namespace parallel::cuda {

/// Returns when enqueued. Throws `error` when head_dim is above 256.
template <class T>
void attention_impl(stream& s, ops::heads_view<T> out, tensor_view<accumulate_t<T>, 3> lse,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options options);

/// The same bits in every run by the plain kernels, and by the fused ones on deterministic streams.
template <class T>
void attention_backward_impl(stream& s, ops::heads_view<T> dq, ops::heads_view<T> dk,
                             ops::heads_view<T> dv, ops::heads_view<T const> dout,
                             ops::heads_view<T const> q, ops::heads_view<T const> k,
                             ops::heads_view<T const> v, ops::heads_view<T const> out,
                             tensor_view<accumulate_t<T> const, 3> lse,
                             ops::attention_options options);

template <class T>
void extend_attention_impl(stream& s, ops::heads_view<accumulate_t<T>> out,
                           tensor_view<accumulate_t<T>, 3> lse, ops::heads_view<T const> q,
                           ops::heads_view<T const> k, ops::heads_view<T const> v,
                           ops::attention_options options);

template <class T>
void extend_attention_backward_impl(
    stream& s, ops::heads_view<accumulate_t<T>> dq, ops::heads_view<accumulate_t<T>> dk,
    ops::heads_view<accumulate_t<T>> dv, ops::heads_view<T const> dout, ops::heads_view<T const> q,
    ops::heads_view<T const> k, ops::heads_view<T const> v, ops::heads_view<T const> out,
    tensor_view<accumulate_t<T> const, 3> lse, ops::attention_options options);

}  // namespace parallel::cuda
