// Merging adapters into the weights beside which they stand, W + s B A, and back (LoRA; Hu et al.,
// 2021): a merged model computes what the two compute together, to rounding.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <mpt/config/lora.hpp>
#include <mpt/hf/model_source.hpp>

namespace mpt {

/// Adds an adapter, A [rank, in] and B [out, rank], to elements [begin, begin + weights.size()) of
/// the weight W [out, in] beside which it stands. Cost: 2·rank operations an element.
void merge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                   matrix_view<float const> b, double scale);

/// Takes it out again: W to rounding.
void unmerge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                     matrix_view<float const> b, double scale);

/// The weights of a model with its adapters merged into them, read a piece at a time. Memory: one
/// adapter.
class merged_weights {
 public:
  /// Borrows `source`, which has adapters.
  explicit merged_weights(model_source const& source)
      : source_(source), lora_(source.config().lora.value()) {}

  /// Elements of a parameter of the model without adapters, from `begin` on.
  void read(std::string const& name, index begin, std::span<float> out);

 private:
  void take(std::string const& layer);

  model_source const& source_;
  lora_config lora_;
  std::string layer_;  // whose adapter is here
  std::vector<float> a_, b_;
};

}  // namespace mpt
