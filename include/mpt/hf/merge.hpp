// Merges adapters into the weights that they adapt, W + s B A (LoRA; Hu et al., 2021). A merged
// model computes the same as the model with its adapters, up to rounding.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <mpt/config/model/lora.hpp>
#include <mpt/hf/model_source.hpp>

namespace mpt {

/// Adds an adapter, A [rank, in] and B [out, rank], to elements [begin, begin + weights.size()) of
/// the weight W [out, in] that it adapts. Cost: 2·rank operations an element.
void merge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                   matrix_view<float const> b, double scale);

/// Reads the weights of a model with its adapters merged into them, a piece at a time. Memory: one
/// adapter.
class merged_weights {
 public:
  /// Keeps a reference to `source`, which must have adapters.
  explicit merged_weights(model_source const& source)
      : source_(source), lora_(source.config().lora.value()) {}

  /// Reads elements of a merged parameter from `begin` on.
  void read(std::string const& name, index begin, std::span<float> out);

 private:
  void load_adapter(std::string const& layer);

  model_source const& source_;
  lora_config lora_;
  std::string loaded_layer_;  // the layer whose adapter a_ and b_ hold
  std::vector<float> a_, b_;
};

}  // namespace mpt
