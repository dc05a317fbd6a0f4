// One MPT block: x + attention(norm(x)), then x + feed_forward(norm(x)), pre-norm and sequential.
#pragma once

#include <mpt/model/attention.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/sequential.hpp>

namespace mpt {

using parallel::activation;
using parallel::dropout;
using parallel::feed_forward;
using parallel::residual;
using parallel::sequential;

template <class T>
using attention_branch = residual<dropout<sequential<norm<T>, attention<T>>>>;

template <class T>
using feed_forward_branch = residual<dropout<sequential<norm<T>, feed_forward<activation<T>>>>>;

template <class T>
using block = sequential<attention_branch<T>, feed_forward_branch<T>>;

/// The attention part's saved activations, where generation hangs its cache.
template <class T>
[[nodiscard]] typename attention<T>::saved& attention_of(typename block<T>::saved& kept) {
  return std::get<1>(std::get<0>(kept));
}

}  // namespace mpt
