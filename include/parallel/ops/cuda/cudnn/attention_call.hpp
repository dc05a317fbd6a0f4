// A call of attention in cuDNN's terms: the problem that determines its graph, and the numbers that
// a plan reads at run time.
#pragma once

#include <cstdint>
#include <limits>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention/attention_options.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/attention/attention_tuning.hpp>

namespace parallel::cuda::cudnn {

/// The strides of a view, as cuDNN checks them.
template <class T>
[[nodiscard]] attention_strides strides_of(ops::heads_view<T> const& view) {
  // cuDNN checks the stride between sequences even if there is only one; this is a valid value
  index const dense_stride = view.sequence * view.row_stride;
  return {view.batch == 1 ? dense_stride : view.batch_stride, view.row_stride};
}

/// The problem that determines the graphs of both passes.
[[nodiscard]] inline attention_problem problem_of(ops::heads_view<bf16 const> const& out,
                                                  ops::heads_view<bf16 const> const& q,
                                                  ops::heads_view<bf16 const> const& k,
                                                  ops::heads_view<bf16 const> const& v,
                                                  ops::attention_options const& options) {
  attention_problem problem;
  problem.batch = q.batch;
  problem.sequence = q.sequence;
  problem.heads = q.heads;
  problem.key_heads = k.heads;
  problem.head_dim = q.head_dim;
  problem.alibi = !options.alibi_slopes.empty();
  problem.documents = !options.document_begins.empty();
  if (problem.documents && options.positions.sequence_length != q.sequence)
    problem.full_sequence = options.positions.sequence_length;
  problem.queries_after_keys = distance(options) != 0;
  index const farthest = distance(options) + q.sequence - 1;  // key that a query may see
  problem.window = options.window >= farthest ? -1 : options.window;
  problem.q = strides_of(q);
  problem.k = strides_of(k);
  problem.v = strides_of(v);
  problem.out = strides_of(out);
  return problem;
}

/// The numbers that plans read from host memory.
struct attention_numbers {
  attention_numbers(ops::attention_options const& options, attention_problem const& problem)
      : scale(static_cast<float>(options.scale)),
        window(static_cast<float>(problem.window + 1 - distance(options))),
        query_distance(static_cast<std::int32_t>(distance(options))),
        first_key(static_cast<std::int32_t>(options.positions.first_key)) {}
  float scale;
  float window;  ///< column + window > row, as the graph counts them
  std::int32_t query_distance, first_key;
  float masked = -std::numeric_limits<float>::infinity();
  float other = -1e9F;  ///< see in_documents
  float one = 1.0F;
};

}  // namespace parallel::cuda::cudnn
