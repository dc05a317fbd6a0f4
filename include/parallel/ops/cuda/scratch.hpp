// scratch_bytes: the scratch memory that an operation on cuda::stream needs, computed from its
// arguments. The launchers request that many bytes, and the meta device counts them for the memory
// plan. This header needs no CUDA.
//
// A stream runs one operation at a time, and all its operations share one piece of scratch memory,
// as large as the largest of them needs. Where only a library on the GPU knows the size, an upper
// bound is given here, or the comment says what is not included.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <parallel/ops/affine.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/attention/document_tables.hpp>
#include <parallel/ops/cuda/kernels/embedding_backward.hpp>
#include <parallel/ops/cuda/kernels/exact_squared_norm.hpp>
#include <parallel/ops/cuda/kernels/experts/expert_order.hpp>
#include <parallel/ops/cuda/kernels/norm/norm_weight_gradient.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/cuda/matmul/matmul_shape.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/pointwise/bias.hpp>

namespace parallel::cuda {

/// `bytes` rounded up to a multiple of 256, where the next piece of scratch memory begins.
[[nodiscard]] constexpr std::size_t scratch_piece(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// The conditions other than an operation's arguments on which its scratch depends.
struct scratch_conditions {
  bool deterministic = false;  ///< as in stream_options
  /// The library and device whose fused attention is planned for; by default those that support
  /// the most cases (attention_path.hpp).
  attention_backend fused = {.library = 91600, .capability = 90};
};

/// The bytes of scratch that an operation needs: 0 unless an overload below says otherwise.
template <ops::operation_arguments Arguments>
[[nodiscard]] constexpr std::size_t scratch_bytes(Arguments const& /*arguments*/,
                                                  scratch_conditions const& /*conditions*/ = {}) {
  return 0;
}

namespace detail {

/// The workspace of a matrix product by cuBLASLt: the largest that any of its algorithms may use.
/// Products of other types than float and bf16 use kernels that need none. `k` is the number of
/// terms of each element.
template <class T>
[[nodiscard]] constexpr std::size_t product_scratch(bool is_empty, index k) {
  constexpr bool uses_cublaslt = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
  return uses_cublaslt && !is_empty && k > 0 ? product_workspace_bytes : 0;
}

/// The partial sums of a reduction of `count` elements, one for each block.
template <class T>
[[nodiscard]] std::size_t sum_scratch(std::size_t count) {
  return kernels::pieces_of(count) * sizeof(ops::sum_t<T>);
}

/// The number of thread blocks of exact_squared_norm: at most as many as run at the same time on a
/// large device, whose shared memory holds three of them on each of 132 multiprocessors.
[[nodiscard]] inline std::size_t exact_squared_norm_blocks(std::size_t count) {
  constexpr std::size_t max_blocks = std::size_t{3} * 132;
  return std::min(kernels::pieces_of(count), max_blocks);
}

/// The sums of chunks of rows from which the gradients of a norm's weight and bias are computed;
/// `is_needed`: whether there is such a gradient.
template <class T>
[[nodiscard]] std::size_t norm_weight_gradient_scratch(ops::rows_view<T const> x, bool is_needed) {
  auto const division = kernels::weight_gradient_division::for_rows(x);
  return is_needed ? division.sums(x.columns) * sizeof(accumulate_t<T>) : 0;
}

/// The bytes of one number per query and head, such as the lse.
template <class T>
[[nodiscard]] std::size_t attention_row_bytes(ops::heads_view<T const> const& q) {
  return sizeof(accumulate_t<T>) * static_cast<std::size_t>(q.batch * q.heads * q.sequence);
}

/// The bytes of a view's elements when they are stored contiguously.
template <class T>
[[nodiscard]] std::size_t heads_bytes(ops::heads_view<T> const& view) {
  return sizeof(T) * static_cast<std::size_t>(view.size());
}

/// The gradients of keys and values of every query head, before the gradients of query heads that
/// share a key head are summed; 0 bytes if every query head has its own key head.
template <class T>
[[nodiscard]] std::size_t key_gradients_bytes(ops::heads_view<T const> const& q,
                                              ops::heads_view<T const> const& k) {
  auto const elements = static_cast<std::size_t>(q.batch * q.heads * k.sequence * q.head_dim);
  return q.heads == k.heads ? 0 : 2 * elements * sizeof(bf16);
}

/// The scratch of a fused backward pass. For a deterministic pass cuDNN's plan requests, for each
/// head and sequence, a bf16 number per pair of a query and a key, and memory for the gradients of
/// shared keys. Otherwise the scratch holds the sums of dq and the gradients of shared keys; the
/// plan usually requests nothing.
template <class T>
[[nodiscard]] std::size_t fused_backward_scratch(ops::heads_view<T const> const& q,
                                                 ops::heads_view<T const> const& k,
                                                 bool deterministic) {
  std::size_t const rows = attention_row_bytes<T>(q);
  auto const width = static_cast<std::size_t>(q.head_dim);
  auto const keys = static_cast<std::size_t>(k.sequence);
  std::size_t const shared = key_gradients_bytes<T>(q, k);
  return scratch_piece(rows) +
         (deterministic
              ? scratch_piece(rows / sizeof(accumulate_t<T>) * keys * sizeof(bf16) + shared)
              : scratch_piece(rows * width) + scratch_piece(shared));
}

/// The tables of a fused forward pass that treats packed documents as separate sequences, and the
/// workspace that its plan requests; 0 if the pass cannot do so.
template <class T>
[[nodiscard]] std::size_t forward_tables_bytes(ops::heads_view<T const> const& q,
                                               ops::attention_options const& options) {
  constexpr int tables = 5;  // for q, k, v, the result and lse
  if (options.document_begins.empty() || options.positions.sequence_length != 0) return 0;
  index const max_count = max_documents(q.batch * q.sequence);
  return document_tables_bytes(max_count, tables) + document_plan_reserve(max_count);
}

/// The same for a backward pass. The bytes are counted even without documents, because a memory
/// plan does not know whether there are any.
template <class T>
[[nodiscard]] std::size_t backward_tables_bytes(ops::heads_view<T const> const& q,
                                                ops::attention_options const& options,
                                                bool deterministic) {
  if (deterministic || options.positions.sequence_length != 0) return 0;
  index const max_count = max_documents(q.batch * q.sequence);
  return document_tables_bytes(max_count, kernels::document_tables::max_tables) +
         document_plan_reserve(max_count);
}

/// An upper bound of the scratch of CUB's sort for `count` pairs of 32-bit numbers: a copy of both
/// lists (8 bytes a pair), 256 counters for each tile of at least 1024 pairs (1 byte a pair); the
/// 64 KiB are for 256 sums for each 8 bits of a key and 2^28 pairs, and for aligning these pieces.
[[nodiscard]] constexpr std::size_t sort_scratch(std::size_t count) {
  return 9 * count + (std::size_t{64} << 10);
}

/// The parts of embedding_backward's scratch, in bytes.
template <class T>
struct embedding_backward_scratch {
  explicit embedding_backward_scratch(index count, index columns)
      : list(scratch_piece(static_cast<std::size_t>(count) * sizeof(std::uint32_t))),
        open(scratch_piece(
            static_cast<std::size_t>(2 * kernels::sorted_tokens<T>::pieces(count) * columns) *
            sizeof(accumulate_t<T>))),
        sort(sort_scratch(static_cast<std::size_t>(count))) {}

  [[nodiscard]] std::size_t total() const { return 4 * list + open + sort; }

  std::size_t list;  // each of four lists of `count` 32-bit numbers
  std::size_t open;  // kernels::sorted_tokens::open: sums of rows that continue in another piece
  std::size_t sort;  // the memory of the sort
};

/// The parts of expert_order's scratch, in bytes.
struct expert_order_scratch {
  explicit expert_order_scratch(ops::expert_order_arguments const& a)
      : chunks(scratch_piece(
            static_cast<std::size_t>(kernels::choice_chunks::for_order(a).count() * a.ends.size()) *
            sizeof(std::int32_t))),
        experts(scratch_piece(static_cast<std::size_t>(a.ends.size()) * sizeof(std::int32_t))) {}

  [[nodiscard]] std::size_t total() const { return 2 * chunks + experts; }

  std::size_t chunks;   // each of two numbers for each chunk and expert
  std::size_t experts;  // a number for each expert
};

}  // namespace detail

template <class C, class T>
[[nodiscard]] std::size_t scratch_bytes(ops::matmul_arguments<C, T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::product_scratch<T>(a.c.empty(), a.a.extent(a.options.transpose_a ? 0 : 1));
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::affine_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::product_scratch<T>(a.y.empty(), a.x.extent(1));
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::squared_norm_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::sum_scratch<T>(a.x.size());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::sum_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::sum_scratch<T>(a.x.size());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::exact_squared_norm_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::exact_squared_norm_blocks(a.x.size()) * kernels::exact_words *
         sizeof(std::int64_t);
}

template <class T, bool Centred>
[[nodiscard]] std::size_t scratch_bytes(ops::norm_backward_weight_arguments<T, Centred> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::norm_weight_gradient_scratch<T>(a.x, !a.dweight.empty() || !a.dbias.empty());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::add_bias_backward_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return detail::norm_weight_gradient_scratch<T>(a.dy, true);
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::embedding_backward_arguments<T> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  if (a.dy.empty() || a.dtable.empty()) return 0;
  return detail::embedding_backward_scratch<T>(a.dy.extent(0), a.dy.extent(1)).total();
}

[[nodiscard]] inline std::size_t scratch_bytes(ops::expert_order_arguments const& a,
                                               scratch_conditions const& /*conditions*/ = {}) {
  return detail::expert_order_scratch(a).total();
}

template <class A>
[[nodiscard]] std::size_t scratch_bytes(ops::choice_counts_arguments<A> const& a,
                                        scratch_conditions const& /*conditions*/ = {}) {
  return static_cast<std::size_t>(kernels::choice_chunks::for_counts(a).count() *
                                  a.counts.extent(1)) *
         sizeof(std::int32_t);
}

/// The scratch of the fused kernel, without the workspace that its plan may request (commonly
/// none).
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::attention_arguments<T> const& a,
                                        scratch_conditions const& conditions = {}) {
  if (!attention_forward_path(conditions.fused, a.out, a.lse.data(), a.q, a.k, a.v, a.options)
           .fused)
    return 0;
  return scratch_piece(a.lse.empty() ? detail::attention_row_bytes<T>(a.q) : 0) +
         scratch_piece(detail::forward_tables_bytes(a.q, a.options));
}

/// The scratch of the kernels, plain or fused, that attention_backward_path chooses.
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::attention_backward_arguments<T> const& a,
                                        scratch_conditions const& conditions = {}) {
  return attention_backward_path(conditions.fused, a).fused
             ? detail::fused_backward_scratch<T>(a.q, a.k, conditions.deterministic) +
                   scratch_piece(
                       detail::backward_tables_bytes(a.q, a.options, conditions.deterministic))
             : detail::attention_row_bytes<T>(a.q);
}

/// The result and the lse of attention to the added keys alone, if a fused kernel computes them.
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::extend_attention_arguments<T> const& a,
                                        scratch_conditions const& conditions = {}) {
  if (!extend_attention_path(conditions.fused, a.q, a.k, a.v, a.options).fused) return 0;
  return scratch_piece(detail::heads_bytes(a.q)) +
         scratch_piece(detail::attention_row_bytes<T>(a.q));
}

/// The scratch of the backward kernels and, if they are fused, the gradients that they compute
/// before these are added: of queries, keys and values.
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::extend_attention_backward_arguments<T> const& a,
                                        scratch_conditions const& conditions = {}) {
  if (!extend_attention_backward_path(conditions.fused, conditions.deterministic, a).fused)
    return detail::attention_row_bytes<T>(a.q);
  return detail::fused_backward_scratch<T>(a.q, a.k, conditions.deterministic) +
         scratch_piece(detail::heads_bytes(a.q)) + 2 * scratch_piece(detail::heads_bytes(a.k));
}

}  // namespace parallel::cuda
