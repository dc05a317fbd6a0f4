#include <mpt/hf/merge.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace mpt {

void merge_adapter(std::span<float> weights, index begin, matrix_view<float const> a,
                   matrix_view<float const> b, double scale) {
  require(a.extent(0) == b.extent(1), "merging an adapter: A has ", a.extent(0), " rows, B ",
          b.extent(1), " columns; both must equal the adapter's rank");
  index const width = a.extent(1);
  auto const end = begin + std::ssize(weights);
  require(begin >= 0 && end <= b.extent(0) * width, "merging an adapter: elements [", begin, ", ",
          end, ") are not in a weight of [", b.extent(0), ", ", width, "]");
  for (index position = begin; position < end;) {
    index const row = position / width;
    index const stop = std::min(end, (row + 1) * width);
    float* const w_row = weights.data() + (position - begin);
    for (index k = 0; k < a.extent(0); ++k) {
      auto const factor = static_cast<float>(scale * static_cast<double>(b(row, k)));
      float const* const a_row = a.data() + k * width + (position - row * width);
      for (index i = 0; i < stop - position; ++i) w_row[i] += factor * a_row[i];
    }
    position = stop;
  }
}

void merged_weights::read(std::string const& name, index begin, std::span<float> out) {
  source_.read(name, begin, out);
  constexpr std::string_view weight = ".weight";
  if (!name.ends_with(weight)) return;
  auto const layer = name.substr(0, name.size() - weight.size());
  if (!is_adapted(lora_, layer)) return;
  if (layer != loaded_layer_) load_adapter(layer);
  index const rank = lora_rank(lora_, layer);
  merge_adapter(out, begin, {a_.data(), {rank, std::ssize(a_) / rank}},
                {b_.data(), {std::ssize(b_) / rank, rank}}, lora_scale(lora_, layer));
}

void merged_weights::load_adapter(std::string const& layer) {
  auto const load = [&](std::string_view suffix, std::vector<float>& matrix) {
    auto const name = concat(layer, suffix);
    auto const& extents = source_.shape_of(name);
    matrix.resize(static_cast<std::size_t>(extents.at(0) * extents.at(1)));
    source_.read(name, 0, std::span(matrix));
  };
  load(lora_a_suffix, a_);
  load(lora_b_suffix, b_);
  loaded_layer_ = layer;
}

}  // namespace mpt
