// Vocabulary-parallel embedding: each rank looks up the rows of the table that it holds, and the
// sum over ranks is the whole look-up (Shoeybi et al., "Megatron-LM", 2019).
#pragma once

#include <cstdint>

#include <parallel/ops/embedding.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

template <class T, class Comm>
struct embedding {
  using element = T;
  static constexpr bool takes_divided_sequences = true;

  region<Comm> tensor_region;
  parameter<T, 2> weight;  ///< some rows of [vocabulary, width]

  /// The rows of the vocabulary that this rank holds.
  [[nodiscard]] ops::table_slice slice() const {
    if (weight.whole_extents.empty()) return {};
    return {.first = weight.rows.front().begin, .vocabulary = weight.whole_extents[0]};
  }

  /// [rows] ids to [rows between regions, width].
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c,
                                       vector_view<std::int32_t const> ids) const {
    auto y = c.template allocate<T, 2>({ids.extent(0), weight.extents[1]});
    ops::embedding(c.stream, y, ids, weight.value(), slice());
    return tensor_region.leave(c, addend<T>{y});
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, vector_view<std::int32_t const> ids,
                       matrix_view<T const> dy) const {
    auto const gathered = tensor_region.enter(c, dy);
    if (weight.has_gradient())
      ops::embedding_backward(c.stream, weight.gradient(), gathered, ids, slice());
  }

  void visit_parameters(auto&& visit) { visit(weight); }
};

}  // namespace parallel::tensor
