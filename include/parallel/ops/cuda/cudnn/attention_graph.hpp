// Causal attention and its gradient as graphs that cuDNN recognises and fuses (since version 9.16).
// cuDNN recognises them by the order of their operations.
//
// Queries, keys and values are read, and gradients written, in place, at any strides of rows and
// sequences. ALiBi is slope (column - row), computed from indices; slopes are memory. lse is what
// cuDNN calls stats: natural logarithms, [B, H, S, 1] in floats. The gradient of queries is summed
// by atomic additions into floats, so that its last bits vary from run to run. The deterministic
// gradient is computed from a matrix of S x S bf16 numbers for each head, which the plan requests
// as its workspace and which takes time.
//
// If the queries are a part of a sequence after all keys, the future is not masked. ALiBi and
// windows then read the distance from a number, so that one plan serves every pair of parts. The
// lse of a row that sees none of the keys is about -1e9, which acts as -infinity. The backward pass
// reads the lse and out over all parts.
//
// Packed documents are one more mask, before the causal one, where cuDNN expects the padding mask:
// each row reads the beginning of its document, in the full sequence if the rows are a part of one.
// Blocks of pairs of different documents are computed all the same. cuDNN supports this on devices
// of compute capability 9.0 and, except for the deterministic gradient, on newer ones.
// Alternatively each document is its own sequence, out of the largest possible number of
// documents: it has a true length, and a table of offsets states its beginning in every tensor. The
// tensors that are stored in memory between operations then follow NVIDIA's own graphs
// (cudnn-frontend, scaled_dot_product_flash_attention.h): the sums of dq have the strides and the
// table of dq; those of a row's dout.out have the table of lse; and each head's gradients of shared
// keys have the table of dk or dv, and its strides times the number of heads that share a key head,
// by which cuDNN multiplies the offsets too. With separate tables, cuDNN read where nothing was
// written (cuDNN 9.19 on an H100).
#pragma once

#include <map>
#include <optional>

#include <parallel/ops/cuda/attention/attention_tuning.hpp>
#include <parallel/ops/cuda/cudnn/graph.hpp>

namespace parallel::cuda::cudnn {

/// Identifiers (uid) of the tensors in memory.
namespace attention_uid {
/// The operands and results of attention and of its gradients.
inline constexpr std::int64_t q = 1, k = 2, v = 3, out = 4, lse = 5, slopes = 6, dq = 7, dk = 8,
                              dv = 9, dout = 10;
inline constexpr std::int64_t scale = 11, masked = 12, window = 13, one = 14;  ///< numbers
inline constexpr std::int64_t dq_sum =
    15;  ///< [B, H, S, D] floats of scratch, if not deterministic
inline constexpr std::int64_t row_dots = 16;  ///< [B, H, S] floats of scratch: dout_i·out_i
inline constexpr std::int64_t begins =
    17;                                    ///< [B, S or whole] int32: where a row's document begins
inline constexpr std::int64_t other = 18;  ///< number: the score of a key of another document
inline constexpr std::int64_t distance =
    19;  ///< number, int32: position of query 0 - that of key 0
inline constexpr std::int64_t first_key = 20;  ///< number, int32: position of key 0 in the sequence
inline constexpr std::int64_t lengths = 21;    ///< [documents] int32, if each is a sequence
inline constexpr std::int64_t dk_per_head = 22,
                              dv_per_head = 23;  ///< likewise, [B, H, S, D] bf16 of scratch
/// [documents + 1] int64: the beginning of each document in a tensor, and the end of the last one.
[[nodiscard]] constexpr std::int64_t offsets_of(std::int64_t uid) { return 100 + uid; }
}  // namespace attention_uid

namespace detail {

/// The shared parts of both passes. Graph is `graph`, or a type by which tests compute the same
/// expressions. If documents are separate sequences (`ragged`), the batch consists of
/// documents.
template <class Graph>
struct attention_builder {
  using tensor = typename Graph::tensor;
  Graph& g;
  attention_problem const& problem;
  bool ragged = problem.max_documents > 0;
  std::int64_t batch = ragged ? problem.max_documents : problem.batch;
  sizes scores = {batch, problem.heads, problem.sequence, problem.sequence};
  sizes rows = {batch, problem.heads, problem.sequence, 1};
  sizes full_rows = {batch, problem.heads, problem.sequence, problem.head_dim};
  tensor scale = g.number(attention_uid::scale, CUDNN_DATA_FLOAT);
  tensor masked = g.number(attention_uid::masked, CUDNN_DATA_FLOAT);
  std::optional<tensor> lengths =
      ragged ? std::optional(g.memory(attention_uid::lengths, CUDNN_DATA_INT32, {batch, 1, 1, 1},
                                      {1, 1, 1, 1}))
             : std::nullopt;
  std::map<std::int64_t, tensor> tables = {};  // of offsets, by the uid of the tensor

  /// The beginning of each document in the tensor `uid`: one table for all tensors that name it.
  tensor table_of(std::int64_t uid) {
    auto const known = tables.find(uid);
    if (known != tables.end()) return known->second;
    auto const table = g.memory(attention_uid::offsets_of(uid), CUDNN_DATA_INT64,
                                {batch + 1, 1, 1, 1}, {1, 1, 1, 1});
    return tables.emplace(uid, table).first->second;
  }
  /// Memory of the rows of all sequences, or of documents whose beginnings are in the table of
  /// `table_owner`.
  tensor memory(std::int64_t uid, cudnnDataType_t type, sizes const& extents, sizes const& strides,
                std::int64_t table_owner) {
    if (!ragged) return g.memory(uid, type, extents, strides);
    return g.ragged(table_of(table_owner), uid, type, extents, strides);
  }
  tensor heads(std::int64_t uid, std::int64_t count, attention_strides const& strides) {
    return heads(uid, count, strides, CUDNN_DATA_BFLOAT16, uid);
  }
  tensor heads(std::int64_t uid, std::int64_t count, attention_strides const& strides,
               cudnnDataType_t type, std::int64_t table_owner) {
    return memory(uid, type, {batch, count, problem.sequence, problem.head_dim},
                  {strides.batch, problem.head_dim, strides.row, 1}, table_owner);
  }
  /// `heads` with its last two dimensions exchanged.
  tensor columns(std::int64_t uid, std::int64_t count, attention_strides const& strides) {
    return memory(uid, CUDNN_DATA_BFLOAT16, {batch, count, problem.head_dim, problem.sequence},
                  {strides.batch, problem.head_dim, 1, strides.row}, uid);
  }
  /// A number for each row and head, [batch, heads, sequence], where sequences are those of the
  /// call.
  tensor row_numbers(std::int64_t uid) {
    return memory(uid, CUDNN_DATA_FLOAT, rows, dense(rows), attention_uid::lse);
  }

  /// c = a b, restricted to the rows and columns of scores that exist.
  tensor score(tensor a, tensor b) {
    return g.multiply(a, b, g.virtual_tensor(scores), {length(), length(), nullptr});
  }
  /// c = a b, where a has the extents of scores or of their transpose.
  tensor weigh(tensor a, tensor b, tensor c) {
    return g.multiply(a, b, c, {length(), nullptr, length()});
  }
  tensor const* length() const { return lengths ? &*lengths : nullptr; }

  /// scale q·k - slope (distance + row - column)
  tensor biased_scores(tensor q, tensor k) {
    auto const products = score(q, k);
    auto const scaled = g.map(CUDNN_POINTWISE_MUL, products, scale);
    if (!problem.alibi) return scaled;
    auto const row = g.positions(scaled, 2, CUDNN_DATA_INT32);
    auto const column = g.positions(scaled, 3, CUDNN_DATA_INT32);
    auto offset = g.map(CUDNN_POINTWISE_SUB, column, row, integers);
    if (problem.queries_after_keys)
      offset = g.map(CUDNN_POINTWISE_SUB, offset,
                     g.number(attention_uid::distance, CUDNN_DATA_INT32), integers);
    auto const slopes = g.memory(attention_uid::slopes, CUDNN_DATA_FLOAT, {1, problem.heads, 1, 1},
                                 {problem.heads, 1, 1, 1});
    return g.map(CUDNN_POINTWISE_ADD, scaled, g.map(CUDNN_POINTWISE_MUL, offset, slopes));
  }

  /// x where row and column exist in a document that is its own sequence; -infinity elsewhere.
  tensor in_lengths(tensor x) {
    if (!ragged) return x;
    auto const row = g.positions(x, 2, CUDNN_DATA_INT32);
    auto const column = g.positions(x, 3, CUDNN_DATA_INT32);
    auto const inside =
        g.map(CUDNN_POINTWISE_LOGICAL_AND, g.map(CUDNN_POINTWISE_CMP_LT, row, *lengths, logic),
              g.map(CUDNN_POINTWISE_CMP_LT, column, *lengths, logic), logic);
    return g.select(x, masked, inside);
  }

  /// x where column >= the beginning of the row's document; elsewhere a number that acts as
  /// -infinity in a softmax, but whose difference with itself is 0. The first block of keys that a
  /// kernel processes may contain no key of a row's document, and then the row's greatest score is
  /// this number.
  tensor in_documents(tensor x) {
    if (!problem.documents || ragged) return x;
    auto column = g.positions(x, 3, CUDNN_DATA_INT32);
    if (problem.full_sequence > 0)
      column = g.map(CUDNN_POINTWISE_ADD, column,
                     g.number(attention_uid::first_key, CUDNN_DATA_INT32), integers);
    auto const stride = problem.full_sequence > 0 ? problem.full_sequence : problem.sequence;
    auto const begins =
        g.memory(attention_uid::begins, CUDNN_DATA_INT32, {problem.batch, 1, problem.sequence, 1},
                 {stride, stride, 1, 1}, sizeof(std::int32_t));
    return g.select(x, g.number(attention_uid::other, CUDNN_DATA_FLOAT),
                    g.map(CUDNN_POINTWISE_CMP_GE, column, begins, logic));
  }

  /// x where row >= column and, with a window, column + window >= row; -infinity elsewhere. If
  /// queries come after all keys only the window applies, with another number in place of
  /// -infinity, as for documents.
  tensor visible(tensor x) { return in_window(problem.queries_after_keys ? x : causal(x)); }

  tensor causal(tensor x) {
    auto const row = g.positions(x, 2, CUDNN_DATA_FLOAT);
    auto const column = g.positions(x, 3, CUDNN_DATA_FLOAT);
    return g.select(x, masked, g.map(CUDNN_POINTWISE_CMP_GE, row, column, logic));
  }

  tensor in_window(tensor x) {
    if (problem.window < 0) return x;
    auto const late_row = g.positions(x, 2, CUDNN_DATA_FLOAT);
    auto const late_column = g.positions(x, 3, CUDNN_DATA_FLOAT);
    auto const reach =
        g.map(CUDNN_POINTWISE_ADD, late_column, g.number(attention_uid::window, CUDNN_DATA_FLOAT));
    auto const hidden =
        problem.queries_after_keys ? g.number(attention_uid::other, CUDNN_DATA_FLOAT) : masked;
    return g.select(x, hidden, g.map(CUDNN_POINTWISE_CMP_GT, reach, late_row, logic));
  }
};

}  // namespace detail

/// Adds out and lse from q, k, v and scale to an empty graph. Further inputs: slopes with ALiBi;
/// begins and other with documents; window (= problem.window + 1 - distance) with a window. If
/// queries come after all keys: distance with ALiBi, and other with a window; otherwise masked. For
/// a part of a sequence with documents: first_key. With documents as sequences: lengths and the
/// tables of the tensors that have rows, instead of begins and other.
template <class Graph>
void build_attention_forward(Graph& g, attention_problem const& problem) {
  detail::attention_builder<Graph> builder{g, problem};
  auto const q = builder.heads(attention_uid::q, problem.heads, problem.q);
  auto const k = builder.columns(attention_uid::k, problem.key_heads, problem.k);
  auto const v = builder.heads(attention_uid::v, problem.key_heads, problem.v);
  auto const out = builder.heads(attention_uid::out, problem.heads, problem.out);
  auto const lse = builder.row_numbers(attention_uid::lse);

  auto const x =
      builder.visible(builder.in_documents(builder.in_lengths(builder.biased_scores(q, k))));
  auto const greatest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, g.virtual_tensor(builder.rows));
  auto const powers = g.map(CUDNN_POINTWISE_EXP, g.map(CUDNN_POINTWISE_SUB, x, greatest));
  auto const total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, g.virtual_tensor(builder.rows));
  g.apply(CUDNN_POINTWISE_ADD, greatest, g.map(CUDNN_POINTWISE_LOG, total), lse);
  auto const weights = g.virtual_tensor(builder.scores, CUDNN_DATA_BFLOAT16);
  g.apply(CUDNN_POINTWISE_DIV, powers, total, weights);
  builder.weigh(weights, v, out);
}

/// Adds dq, dk and dv from dout, the inputs and results of the forward pass, and the number one.
template <class Graph>
void build_attention_backward(Graph& g, attention_problem const& problem) {
  using tensor = typename Graph::tensor;
  detail::attention_builder<Graph> builder{g, problem};
  auto const q = builder.heads(attention_uid::q, problem.heads, problem.q);
  auto const k = builder.columns(attention_uid::k, problem.key_heads, problem.k);
  auto const v = builder.columns(attention_uid::v, problem.key_heads, problem.v);
  auto const out = builder.heads(attention_uid::out, problem.heads, problem.out);
  auto const dout = builder.heads(attention_uid::dout, problem.heads, problem.dout);
  auto const lse = builder.row_numbers(attention_uid::lse);
  auto const one = g.number(attention_uid::one, CUDNN_DATA_FLOAT);
  auto const row_dots = builder.row_numbers(attention_uid::row_dots);

  auto const products = g.virtual_tensor(builder.full_rows);
  g.apply(CUDNN_POINTWISE_MUL, dout, out, products);
  auto const sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, g.virtual_tensor(builder.rows));
  g.apply(CUDNN_POINTWISE_MUL, sums, one, row_dots);

  // the gradients of heads that share a key head are summed
  auto const multiply_shared = [&](tensor a, tensor b, std::int64_t uid, std::int64_t per_head_uid,
                                   attention_strides const& strides) {
    auto const result = builder.heads(uid, problem.key_heads, strides);
    if (problem.heads == problem.key_heads) {
      builder.weigh(a, b, result);
    } else {
      auto const per_head =
          builder.ragged
              ? builder.heads(per_head_uid, problem.heads, problem.per_head_strides(strides),
                              CUDNN_DATA_BFLOAT16, uid)
              : g.virtual_tensor(builder.full_rows, CUDNN_DATA_BFLOAT16);
      g.reduce(CUDNN_REDUCE_TENSOR_ADD, builder.weigh(a, b, per_head), result);
    }
  };

  auto const x = builder.visible(builder.in_documents(
      g.map(CUDNN_POINTWISE_SUB, builder.in_lengths(builder.biased_scores(q, k)), lse)));
  auto const weights = g.map(CUDNN_POINTWISE_EXP, x);
  multiply_shared(g.transpose(weights, CUDNN_DATA_BFLOAT16), dout, attention_uid::dv,
                  attention_uid::dv_per_head, problem.dv);

  auto const d_weights = builder.score(dout, v);
  auto const centred = g.map(CUDNN_POINTWISE_SUB, d_weights, row_dots);
  auto const d_scores = g.map(CUDNN_POINTWISE_MUL, centred, weights);
  auto const d_products = g.map(CUDNN_POINTWISE_MUL, d_scores, builder.scale);
  multiply_shared(g.transpose(d_products, CUDNN_DATA_BFLOAT16), q, attention_uid::dk,
                  attention_uid::dk_per_head, problem.dk);

  auto const dq = builder.heads(attention_uid::dq, problem.heads, problem.dq);
  auto const rows_of_k = g.transpose(k, CUDNN_DATA_FLOAT);
  if (problem.deterministic) {
    builder.weigh(d_products, rows_of_k, dq);
  } else {
    auto const sum = builder.ragged ? builder.heads(attention_uid::dq_sum, problem.heads,
                                                    problem.dq, CUDNN_DATA_FLOAT, attention_uid::dq)
                                    : g.memory(attention_uid::dq_sum, CUDNN_DATA_FLOAT,
                                               builder.full_rows, dense(builder.full_rows));
    g.apply(CUDNN_POINTWISE_IDENTITY, builder.weigh(d_products, rows_of_k, sum), dq);
  }
}

/// cuDNN's graph of the forward pass.
[[nodiscard]] inline graph attention_forward_graph(attention_problem const& problem) {
  graph g;
  build_attention_forward(g, problem);
  return g;
}
/// cuDNN's graph of the backward pass.
[[nodiscard]] inline graph attention_backward_graph(attention_problem const& problem) {
  graph g;
  build_attention_backward(g, problem);
  return g;
}

}  // namespace parallel::cuda::cudnn
