// Merging adapters into the weights beside which they stand, W + s B A, and back (LoRA; Hu et al.,
// 2021): a merged model computes what the two compute together, to rounding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/lora.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

namespace detail {

/// Adds scale B A to elements [begin, begin + weights.size()) of W, row by row.
inline void add_product(std::span<float> weights, index begin, matrix_view<float const> a,
                        matrix_view<float const> b, double scale) {
  require(a.extent(0) == b.extent(1), "merging an adapter: A has ", a.extent(0), " rows, B ",
          b.extent(1), " columns; they must be as many, its rank");
  index const width = a.extent(1);
  auto const end = begin + std::ssize(weights);
  require(begin >= 0 && end <= b.extent(0) * width, "merging an adapter: elements [", begin, ", ",
          end, ") are not in a weight of [", b.extent(0), ", ", width, "]");
  for (index at = begin; at < end;) {
    index const row = at / width;
    index const stop = std::min(end, (row + 1) * width);
    float* const to = weights.data() + (at - begin);
    for (index k = 0; k < a.extent(0); ++k) {
      auto const factor = static_cast<float>(scale * static_cast<double>(b(row, k)));
      float const* const from = a.data() + k * width + (at - row * width);
      for (index i = 0; i < stop - at; ++i) to[i] += factor * from[i];
    }
    at = stop;
  }
}

}  // namespace detail

/// Adds an adapter, A [rank, in] and B [out, rank], to elements [begin, begin + weights.size()) of
/// the weight W [out, in] beside which it stands. Cost: 2·rank operations an element.
inline void merge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                          matrix_view<float const> b, double scale) {
  detail::add_product(weights, begin, a, b, scale);
}

/// Takes it out again: W to rounding.
inline void unmerge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                            matrix_view<float const> b, double scale) {
  detail::add_product(weights, begin, a, b, -scale);
}

/// The weights of a model with its adapters merged into them, read a piece at a time. Memory: one
/// adapter.
class merged_weights {
 public:
  /// Borrows `source`, which has adapters.
  explicit merged_weights(model_source const& source)
      : source_(source), lora_(source.config().lora.value()) {}

  /// Elements of a parameter of the model without adapters, from `begin` on.
  void read(std::string const& name, index begin, std::span<float> out) {
    source_.read(name, begin, out);
    constexpr std::string_view weight = ".weight";
    if (!name.ends_with(weight)) return;
    auto const layer = name.substr(0, name.size() - weight.size());
    if (!is_adapted(lora_, layer)) return;
    if (layer != layer_) take(layer);
    index const rank = lora_rank(lora_, layer);
    merge_adapter(out, begin, {a_.data(), {rank, std::ssize(a_) / rank}},
                  {b_.data(), {std::ssize(b_) / rank, rank}}, lora_scale(lora_, layer));
  }

 private:
  void take(std::string const& layer) {
    auto const load = [&](std::string_view suffix, std::vector<float>& to) {
      auto const name = concat(layer, suffix);
      auto const& extents = source_.shape_of(name);
      to.resize(static_cast<std::size_t>(extents.at(0) * extents.at(1)));
      source_.read(name, 0, std::span(to));
    };
    load(lora_a_suffix, a_);
    load(lora_b_suffix, b_);
    layer_ = layer;
  }

  model_source const& source_;
  lora_config lora_;
  std::string layer_;  // whose adapter is here
  std::vector<float> a_, b_;
};

}  // namespace mpt
