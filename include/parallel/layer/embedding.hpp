// embedding: the rows of a table for given token ids. It is not a `layer`: its input is ids, so it
// has no gradient of the input, and a pipeline begins with it.
#pragma once

#include <cstdint>

#include <parallel/core/parameter.hpp>
#include <parallel/layer/context.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel {

template <class T>
struct embedding {
  using element = T;
  static constexpr bool takes_divided_sequences = true;

  parameter<T, 2> weight;  ///< [vocabulary, width]

  /// y[i] = weight[ids[i]]: [rows] ids to [rows, width].
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c,
                                       vector_view<std::int32_t const> ids) const {
    auto y = c.template allocate<T, 2>({ids.extent(0), weight.extents[1]});
    ops::embedding(c.stream, y, ids, weight.value());
    return y;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, vector_view<std::int32_t const> ids,
                       matrix_view<T const> dy) const {
    if (weight.has_gradient()) ops::embedding_backward(c.stream, weight.gradient(), dy, ids);
  }

  void visit_parameters(auto&& visit) { visit(weight); }
};

}  // namespace parallel
