// One block: x + attention(norm(x)), then x + feed_forward(norm(x)), pre-norm, or with norms behind
// attention and feed-forward layer; or both of the same x. Attention and feed-forward layer are
// regions of the tensor axis: neither compiles without its row_linear. The block, its two branches
// and the layers in them can each recompute their activations in the backward pass.
#pragma once

#include <utility>

#include <mpt/model/attention_positions.hpp>
#include <mpt/model/groups.hpp>
#include <parallel/context_parallel/attention.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/layer_variant.hpp>
#include <parallel/layer/normed_branch.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/residual_pair.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/tensor/linear.hpp>
#include <parallel/tensor/mixture.hpp>
#include <parallel/tensor/query_key_norm.hpp>

namespace mpt {

using parallel::activation;
using parallel::dropout;
using parallel::kv_cache;
using parallel::linear;
using parallel::norm;
using parallel::normed_branch;
using parallel::recompute;
using parallel::residual;
using parallel::residual_pair;
using parallel::sequential;
using parallel::shared_keys;
using parallel::ops::head_layout;

template <class T, class Comm = any_communicator>
using column_linear = parallel::tensor::column_linear<T, Comm>;
template <class T, class Comm = any_communicator>
using row_linear = parallel::tensor::row_linear<T, Comm>;
template <class T, class Comm = any_communicator>
using qkv_projection = parallel::qkv_projection<T, column_linear<T, Comm>>;
template <class T, class Comm = any_communicator>
using query_key_norm = parallel::tensor::query_key_norm<T, Comm>;
template <class T, class Comm = any_communicator>
using attention =
    parallel::context_parallel::attention<T, Comm, column_linear<T, Comm>, row_linear<T, Comm>,
                                          query_key_norm<T, Comm>, attention_positions>;
/// A block's feed-forward layer without experts, divided over the tensor axis.
template <class T, class Comm = any_communicator>
using dense_feed_forward =
    parallel::feed_forward<activation<T>, column_linear<T, Comm>, row_linear<T, Comm>>;
/// A block's feed-forward layer with experts, divided over the tensor axis and that of experts.
template <class T, class Comm = any_communicator>
using mixture = parallel::tensor::mixture<activation<T>, Comm>;
/// A block's feed-forward layer: which of the two it is, its configuration says.
template <class T, class Comm = any_communicator>
using feed_forward = parallel::layer_variant<dense_feed_forward<T, Comm>, mixture<T, Comm>>;

/// dropout(Layer(norm(x))), where the layer is divided over the tensor axis.
template <class Layer>
using inner_branch = recompute<dropout<normed_branch<recompute<Layer>>>>;

/// x + dropout(Layer(norm(x))).
template <class Layer>
using branch = residual<inner_branch<Layer>>;

template <class T, class Comm = any_communicator>
using block =
    recompute<residual_pair<inner_branch<attention<T, Comm>>, inner_branch<feed_forward<T, Comm>>>>;

/// The saved activations of a block's attention. Generation attaches its KV cache to them, and
/// blocks that share keys find the shared keys in them.
template <class T, class Comm = any_communicator>
[[nodiscard]] typename attention<T, Comm>::saved& attention_activations(
    typename block<T, Comm>::saved& activations) {
  return std::get<1>(activations.inner.first.inner.inner).inner;
}

/// The mixture of experts of a block; null where its feed-forward layer is dense.
template <class T, class Comm = any_communicator>
[[nodiscard]] mixture<T, Comm>* find_mixture(block<T, Comm>& layers) {
  auto& normed = layers.inner.second.inner.inner.inner;  // in recompute<dropout<...>>
  return std::get_if<mixture<T, Comm>>(&std::get<1>(normed.inner.layers).inner.layer);
}

/// The saved activations of a block's mixture of experts.
template <class T, class Comm = any_communicator>
[[nodiscard]] typename mixture<T, Comm>::saved& mixture_activations(
    typename block<T, Comm>::saved& activations) {
  return std::get<1>(activations.inner.second.inner.inner).inner.second;
}

}  // namespace mpt
