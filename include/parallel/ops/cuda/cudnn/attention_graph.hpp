// Causal attention and its gradient as graphs that cuDNN knows and fuses (since version 9.16): the
// order of operations is the one by which it recognises them.
//
// Queries, keys and values are read, and gradients written, where they lie, at any strides of rows
// and sequences. ALiBi is slope (column - row), computed from indices; slopes are memory. lse is
// what cuDNN calls stats: natural logarithms, [B, H, S, 1] in floats. The gradient of queries is
// summed by atomic additions into floats, so that its last bits vary from run to run; or, if it is
// to be deterministic, from a matrix of S x S bf16 numbers for each head, which the plan asks for
// as its workspace and which takes time.
//
// Where the queries are a part of a sequence that stands behind all keys, the future is not masked,
// and ALiBi and windows take how far from a number, so that one plan does for every pair of parts.
// Of a row that sees none of the keys the lse is as good as -infinity. The backward pass reads the
// lse and out over all parts.
//
// Packed documents are one more mask, before the causal one, where cuDNN expects that of padding: a
// row reads where its document begins, in the whole sequence if it is of a part. Blocks of pairs of
// other documents are computed all the same. Known for devices of compute capability 9.0 and, but
// for the deterministic gradient, newer ones. Or each document is a sequence of its own, of those
// that there may be: of a true length, and beginning in every tensor where a table of offsets says.
// What is kept in memory between operations then follows NVIDIA's own graphs (cudnn-frontend,
// scaled_dot_product_flash_attention.h): the sums of dq have the strides and the table of dq, those
// of a row's dout.out the ones of lse, and each head's gradients of shared keys the table of dk or
// dv and its strides times the heads that share a key head, by which cuDNN multiplies the offsets
// too. Tables of their own were read where nothing was written (cuDNN 9.19 on an H100).
#pragma once

#include <map>
#include <optional>

#include <parallel/ops/cuda/attention_tuning.hpp>
#include <parallel/ops/cuda/cudnn/graph.hpp>

namespace parallel::cuda::cudnn {

/// Numbers of the tensors in memory.
namespace attention_uid {
inline constexpr std::int64_t q = 1, k = 2, v = 3, out = 4, lse = 5, slopes = 6, dq = 7, dk = 8,
                              dv = 9, dout = 10;
inline constexpr std::int64_t scale = 11, masked = 12, window = 13, one = 14;  // numbers
inline constexpr std::int64_t dq_sum = 15;  // [B, H, S, D] floats of scratch, if not deterministic
inline constexpr std::int64_t own = 16;     // [B, H, S] floats of scratch: dout_i·out_i
inline constexpr std::int64_t begins = 17;  // [B, S or whole] int32: where a row's document begins
inline constexpr std::int64_t other = 18;   // number: the score of another document's key
inline constexpr std::int64_t apart = 19;   // number, int32: how far query 0 is behind key 0
inline constexpr std::int64_t first_key = 20;  // number, int32: its position in the whole sequence
inline constexpr std::int64_t lengths = 21;    // [documents] int32, where each is a sequence
inline constexpr std::int64_t dk_each = 22, dv_each = 23;  // then, [B, H, S, D] bf16 of scratch
/// [documents + 1] int64: where in a tensor each document begins, and where the last one ends.
[[nodiscard]] constexpr std::int64_t offsets_of(std::int64_t uid) { return 100 + uid; }
}  // namespace attention_uid

namespace detail {

/// What both passes share. Graph is `graph`, or what tests compute the same expressions with. With
/// documents as sequences of their own (`ragged`) the batch is of those.
template <class Graph>
struct attention_builder {
  using tensor = typename Graph::tensor;
  Graph& g;
  attention_problem const& problem;
  bool ragged = problem.most_documents > 0;
  std::int64_t batch = ragged ? problem.most_documents : problem.batch;
  sizes scores = {batch, problem.heads, problem.sequence, problem.sequence};
  sizes rows = {batch, problem.heads, problem.sequence, 1};
  sizes whole = {batch, problem.heads, problem.sequence, problem.head_dim};
  tensor scale = g.number(attention_uid::scale, CUDNN_DATA_FLOAT);
  tensor masked = g.number(attention_uid::masked, CUDNN_DATA_FLOAT);
  std::optional<tensor> lengths =
      ragged ? std::optional(g.memory(attention_uid::lengths, CUDNN_DATA_INT32, {batch, 1, 1, 1},
                                      {1, 1, 1, 1}))
             : std::nullopt;
  std::map<std::int64_t, tensor> tables = {};  // of offsets, by the tensor that has them

  /// Where in the tensor `uid` each document begins: one table for all tensors that name it.
  tensor table_of(std::int64_t uid) {
    auto const known = tables.find(uid);
    if (known != tables.end()) return known->second;
    auto const table = g.memory(attention_uid::offsets_of(uid), CUDNN_DATA_INT64,
                                {batch + 1, 1, 1, 1}, {1, 1, 1, 1});
    return tables.emplace(uid, table).first->second;
  }
  /// Memory of the rows of all sequences, or of documents that begin where the table of
  /// `table_owner` says.
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
  /// A number for each row and head, [batch, heads, sequence] of sequences that are not divided.
  tensor row_numbers(std::int64_t uid) {
    return memory(uid, CUDNN_DATA_FLOAT, rows, dense(rows), attention_uid::lse);
  }

  /// c = a b of rows and columns of scores, that is of the true ones.
  tensor score(tensor a, tensor b) {
    return g.multiply(a, b, g.between(scores), {length(), length(), nullptr});
  }
  /// c = a b of which a has scores, or their transpose.
  tensor weigh(tensor a, tensor b, tensor c) {
    return g.multiply(a, b, c, {length(), nullptr, length()});
  }
  tensor const* length() const { return lengths ? &*lengths : nullptr; }

  /// scale q·k - slope (apart + row - column)
  tensor biased_scores(tensor q, tensor k) {
    auto const products = score(q, k);
    auto const scaled = g.map(CUDNN_POINTWISE_MUL, products, scale);
    if (!problem.alibi) return scaled;
    auto const row = g.positions(scaled, 2, CUDNN_DATA_INT32);
    auto const column = g.positions(scaled, 3, CUDNN_DATA_INT32);
    auto apart = g.map(CUDNN_POINTWISE_SUB, column, row, integers);
    if (problem.apart)
      apart = g.map(CUDNN_POINTWISE_SUB, apart, g.number(attention_uid::apart, CUDNN_DATA_INT32),
                    integers);
    auto const slopes = g.memory(attention_uid::slopes, CUDNN_DATA_FLOAT, {1, problem.heads, 1, 1},
                                 {problem.heads, 1, 1, 1});
    return g.map(CUDNN_POINTWISE_ADD, scaled, g.map(CUDNN_POINTWISE_MUL, apart, slopes));
  }

  /// x where there are such a row and column of a document that is a sequence of its own; -infinity
  /// elsewhere.
  tensor in_lengths(tensor x) {
    if (!ragged) return x;
    auto const row = g.positions(x, 2, CUDNN_DATA_INT32);
    auto const column = g.positions(x, 3, CUDNN_DATA_INT32);
    auto const within =
        g.map(CUDNN_POINTWISE_LOGICAL_AND, g.map(CUDNN_POINTWISE_CMP_LT, row, *lengths, logic),
              g.map(CUDNN_POINTWISE_CMP_LT, column, *lengths, logic), logic);
    return g.select(x, masked, within);
  }

  /// x where column >= the beginning of the row's document. Elsewhere a number that is as good as
  /// -infinity in a softmax, but whose difference with itself is 0: the first block of keys that a
  /// kernel takes may have none of a row's document, and then the row's greatest score is this.
  tensor in_documents(tensor x) {
    if (!problem.documents || ragged) return x;
    auto column = g.positions(x, 3, CUDNN_DATA_INT32);
    if (problem.whole > 0)
      column = g.map(CUDNN_POINTWISE_ADD, column,
                     g.number(attention_uid::first_key, CUDNN_DATA_INT32), integers);
    auto const stride = problem.whole > 0 ? problem.whole : problem.sequence;
    auto const begins =
        g.memory(attention_uid::begins, CUDNN_DATA_INT32, {problem.batch, 1, problem.sequence, 1},
                 {stride, stride, 1, 1}, sizeof(std::int32_t));
    return g.select(x, g.number(attention_uid::other, CUDNN_DATA_FLOAT),
                    g.map(CUDNN_POINTWISE_CMP_GE, column, begins, logic));
  }

  /// x where row >= column and, with a window, column + window >= row; -infinity elsewhere. Where
  /// rows stand behind columns the window's alone: another number there, as for documents.
  tensor seen(tensor x) { return in_window(problem.apart ? x : causal(x)); }

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
    auto const hidden = problem.apart ? g.number(attention_uid::other, CUDNN_DATA_FLOAT) : masked;
    return g.select(x, hidden, g.map(CUDNN_POINTWISE_CMP_GT, reach, late_row, logic));
  }
};

}  // namespace detail

/// out and lse from q, k, v and scale, added to an empty graph. With ALiBi slopes, with documents
/// begins and other; with a window window + 1, less apart. Of parts that stand apart: with ALiBi
/// apart, with a window other; of no others: masked. Of a part of documents: first_key. With
/// documents as sequences lengths, not begins and other, and the tables of the tensors with rows.
template <class Graph>
void build_attention_forward(Graph& g, attention_problem const& problem) {
  detail::attention_builder<Graph> all{g, problem};
  auto const q = all.heads(attention_uid::q, problem.heads, problem.q);
  auto const k = all.columns(attention_uid::k, problem.key_heads, problem.k);
  auto const v = all.heads(attention_uid::v, problem.key_heads, problem.v);
  auto const out = all.heads(attention_uid::out, problem.heads, problem.out);
  auto const lse = all.row_numbers(attention_uid::lse);

  auto const x = all.seen(all.in_documents(all.in_lengths(all.biased_scores(q, k))));
  auto const greatest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, g.between(all.rows));
  auto const powers = g.map(CUDNN_POINTWISE_EXP, g.map(CUDNN_POINTWISE_SUB, x, greatest));
  auto const total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, g.between(all.rows));
  g.apply(CUDNN_POINTWISE_ADD, greatest, g.map(CUDNN_POINTWISE_LOG, total), lse);
  auto const weights = g.between(all.scores, CUDNN_DATA_BFLOAT16);
  g.apply(CUDNN_POINTWISE_DIV, powers, total, weights);
  all.weigh(weights, v, out);
}

/// dq, dk and dv from dout, what the forward pass read and wrote, and the number one.
template <class Graph>
void build_attention_backward(Graph& g, attention_problem const& problem) {
  using tensor = typename Graph::tensor;
  detail::attention_builder<Graph> all{g, problem};
  auto const q = all.heads(attention_uid::q, problem.heads, problem.q);
  auto const k = all.columns(attention_uid::k, problem.key_heads, problem.k);
  auto const v = all.columns(attention_uid::v, problem.key_heads, problem.v);
  auto const out = all.heads(attention_uid::out, problem.heads, problem.out);
  auto const dout = all.heads(attention_uid::dout, problem.heads, problem.dout);
  auto const lse = all.row_numbers(attention_uid::lse);
  auto const one = g.number(attention_uid::one, CUDNN_DATA_FLOAT);
  auto const own = all.row_numbers(attention_uid::own);

  auto const products = g.between(all.whole);
  g.apply(CUDNN_POINTWISE_MUL, dout, out, products);
  auto const sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, g.between(all.rows));
  g.apply(CUDNN_POINTWISE_MUL, sums, one, own);

  // of the heads that share a key head, the gradients are summed
  auto const multiply_shared = [&](tensor a, tensor b, std::int64_t uid, std::int64_t uid_of_each,
                                   attention_strides const& strides) {
    auto const result = all.heads(uid, problem.key_heads, strides);
    if (problem.heads == problem.key_heads) {
      all.weigh(a, b, result);
    } else {
      auto const each = all.ragged
                            ? all.heads(uid_of_each, problem.heads, problem.each_head_of(strides),
                                        CUDNN_DATA_BFLOAT16, uid)
                            : g.between(all.whole, CUDNN_DATA_BFLOAT16);
      g.reduce(CUDNN_REDUCE_TENSOR_ADD, all.weigh(a, b, each), result);
    }
  };

  auto const x = all.seen(
      all.in_documents(g.map(CUDNN_POINTWISE_SUB, all.in_lengths(all.biased_scores(q, k)), lse)));
  auto const weights = g.map(CUDNN_POINTWISE_EXP, x);
  multiply_shared(g.transpose(weights, CUDNN_DATA_BFLOAT16), dout, attention_uid::dv,
                  attention_uid::dv_each, problem.dv);

  auto const d_weights = all.score(dout, v);
  auto const centred = g.map(CUDNN_POINTWISE_SUB, d_weights, own);
  auto const d_scores = g.map(CUDNN_POINTWISE_MUL, centred, weights);
  auto const d_products = g.map(CUDNN_POINTWISE_MUL, d_scores, all.scale);
  multiply_shared(g.transpose(d_products, CUDNN_DATA_BFLOAT16), q, attention_uid::dk,
                  attention_uid::dk_each, problem.dk);

  auto const dq = all.heads(attention_uid::dq, problem.heads, problem.dq);
  auto const rows_of_k = g.transpose(k, CUDNN_DATA_FLOAT);
  if (problem.deterministic) {
    all.weigh(d_products, rows_of_k, dq);
  } else {
    auto const sum =
        all.ragged ? all.heads(attention_uid::dq_sum, problem.heads, problem.dq, CUDNN_DATA_FLOAT,
                               attention_uid::dq)
                   : g.memory(attention_uid::dq_sum, CUDNN_DATA_FLOAT, all.whole, dense(all.whole));
    g.apply(CUDNN_POINTWISE_IDENTITY, all.weigh(d_products, rows_of_k, sum), dq);
  }
}

[[nodiscard]] inline graph attention_forward_graph(attention_problem const& problem) {
  graph g;
  build_attention_forward(g, problem);
  return g;
}
[[nodiscard]] inline graph attention_backward_graph(attention_problem const& problem) {
  graph g;
  build_attention_backward(g, problem);
  return g;
}

}  // namespace parallel::cuda::cudnn
