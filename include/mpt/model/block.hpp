// One MPT block: x + attention(norm(x)), then x + mlp(norm(x)), pre-norm and sequential.
#pragma once

#include <mpt/model/attention.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/gelu.hpp>
#include <parallel/layer/sequential.hpp>

namespace mpt {

using parallel::dropout;
using parallel::gelu;
using parallel::residual;
using parallel::sequential;

template <class T>
using attention_branch = residual<dropout<sequential<layer_norm<T>, attention<T>>>>;

template <class T>
using mlp_branch = residual<dropout<sequential<layer_norm<T>, linear<T>, gelu<T>, linear<T>>>>;

template <class T>
using block = sequential<attention_branch<T>, mlp_branch<T>>;

/// The attention part's saved activations, where generation hangs its cache.
template <class T>
[[nodiscard]] typename attention<T>::saved& attention_of(typename block<T>::saved& kept) {
  return std::get<1>(std::get<0>(kept));
}

}  // namespace mpt
