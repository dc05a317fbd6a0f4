// One MPT block: x + attention(norm(x)), then x + feed_forward(norm(x)), pre-norm and sequential.
// Attention and feed-forward layer are regions of the tensor axis, whose exchanges hide behind the
// products at their ends. The block, its two branches and
// the layers in them can each make their activations again in the backward pass.
#pragma once

#include <mpt/model/groups.hpp>
#include <parallel/context/attention.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/tensor/overlapped_layers.hpp>
#include <parallel/tensor/query_key_norm.hpp>

namespace mpt {

using parallel::activation;
using parallel::dropout;
using parallel::kv_cache;
using parallel::linear;
using parallel::norm;
using parallel::recompute;
using parallel::residual;
using parallel::sequential;
using parallel::shared_keys;
using parallel::ops::head_layout;

template <class T>
using gather_linear = parallel::tensor::gather_linear<T, any_communicator>;
template <class T>
using reduce_linear = parallel::tensor::reduce_linear<T, any_communicator>;
template <class T>
using qkv_projection = parallel::qkv_projection<T, gather_linear<T>>;
template <class T>
using query_key_norm = parallel::tensor::query_key_norm<T, any_communicator>;
template <class T>
using attention = parallel::context_parallel::attention<T, any_communicator, gather_linear<T>,
                                                        reduce_linear<T>, query_key_norm<T>>;
template <class T>
using feed_forward = parallel::feed_forward<activation<T>, gather_linear<T>, reduce_linear<T>>;

/// x + dropout(Layer(norm(x))), the layer divided over the tensor axis.
template <class Layer, class T = typename Layer::element>
using branch = recompute<residual<dropout<sequential<norm<T>, recompute<Layer>>>>>;

template <class T>
using block = recompute<sequential<branch<attention<T>>, branch<feed_forward<T>>>>;

/// The attention part's saved activations, where generation hangs its cache and blocks that share
/// keys find them.
template <class T>
[[nodiscard]] typename attention<T>::saved& attention_of(typename block<T>::saved& kept) {
  return std::get<1>(std::get<0>(kept.inner).inner).inner;
}

}  // namespace mpt
