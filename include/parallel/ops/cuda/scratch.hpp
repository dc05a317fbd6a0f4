// The scratch memory that operations take on cuda::stream, as formulas of their arguments: the
// launchers ask for it, and the meta device counts it, so that it is planned. Needs no CUDA.
//
// A stream runs one operation at a time and has one piece of memory for all of them: it needs what
// the greediest needs. What only a library on a GPU can say is bounded here, or said not to be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <parallel/ops/affine.hpp>
#include <parallel/ops/bias.hpp>
#include <parallel/ops/cuda/attention_path.hpp>
#include <parallel/ops/cuda/document_tables.hpp>
#include <parallel/ops/cuda/kernels/embedding_backward.hpp>
#include <parallel/ops/cuda/kernels/exact_squared_norm.hpp>
#include <parallel/ops/cuda/kernels/norm_weight_gradient.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/cuda/matmul_shape.hpp>
#include <parallel/ops/extend_attention.hpp>
#include <parallel/ops/layer_norm.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::cuda {

/// A piece of scratch memory that others follow: they begin at multiples of 256 bytes.
[[nodiscard]] constexpr std::size_t scratch_piece(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// What scratch depends on beside an operation's arguments.
struct scratch_conditions {
  bool deterministic = false;  // as in stream_options
  /// Kernels of fused attention that there may be: those of the newest library on the ablest
  /// device.
  attention_backend fused = {.library = 91600, .capability = 90};
};

/// Bytes of scratch of an operation; none unless an overload says otherwise.
template <ops::operation_arguments Arguments>
[[nodiscard]] constexpr std::size_t scratch_bytes(Arguments const& /*a*/,
                                                  scratch_conditions const& /*on*/ = {}) {
  return 0;
}

namespace detail {

/// Products that cuBLASLt multiplies take all that its algorithms may, whichever they are.
template <class T>
[[nodiscard]] constexpr std::size_t product_scratch(bool empty, index k) {
  constexpr bool by_library = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
  return by_library && !empty && k > 0 ? product_workspace_bytes : 0;
}

template <class T>
[[nodiscard]] std::size_t sum_scratch(std::size_t count) {
  return kernels::pieces_of(count) * sizeof(ops::sum_t<T>);
}

/// Blocks of the kernel: as many as the shared memory of a large device holds.
[[nodiscard]] inline std::size_t exact_squared_norm_blocks(std::size_t count) {
  return std::min(kernels::pieces_of(count), std::size_t{396});
}

template <class T>
[[nodiscard]] std::size_t norm_weight_gradient_scratch(ops::rows_view<T const> x, bool wanted) {
  auto const parts = kernels::weight_gradient_division::of(x);
  return wanted ? parts.sums(x.columns) * sizeof(accumulate_t<T>) : 0;
}

/// One number a query and head.
template <class T>
[[nodiscard]] std::size_t attention_row_bytes(ops::heads_view<T const> const& q) {
  return sizeof(accumulate_t<T>) * static_cast<std::size_t>(q.batch * q.heads * q.sequence);
}

/// A view's elements, one after another.
template <class T>
[[nodiscard]] std::size_t heads_bytes(ops::heads_view<T> const& view) {
  return sizeof(T) * static_cast<std::size_t>(view.size());
}

/// Each query head's gradients of keys and values, before those that share a key head are summed.
template <class T>
[[nodiscard]] std::size_t key_gradients_bytes(ops::heads_view<T const> const& q,
                                              ops::heads_view<T const> const& k) {
  auto const all = static_cast<std::size_t>(q.batch * q.heads * k.sequence * q.head_dim);
  return q.heads == k.heads ? 0 : 2 * all * sizeof(bf16);
}

/// That of a fused backward pass. Its plan asks for S x S bf16 numbers for each head and sequence
/// if it is to be deterministic, and, like what takes documents as sequences, for the gradients of
/// shared keys; commonly for nothing else.
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

/// The tables of documents as sequences of their own and what their plan asks for, where a fused
/// pass may take them so: of a backward pass documents or not, since a plan of memory does not know
/// of them.
template <class T>
[[nodiscard]] std::size_t forward_tables_bytes(ops::heads_view<T const> const& q,
                                               ops::attention_options const& options) {
  constexpr int tables = 5;
  if (options.document_begins.empty() || options.positions.sequence_length != 0) return 0;
  index const most = most_documents(q.batch * q.sequence);
  return document_tables_bytes(most, tables) + document_room(most);
}
template <class T>
[[nodiscard]] std::size_t backward_tables_bytes(ops::heads_view<T const> const& q,
                                                ops::attention_options const& options,
                                                bool deterministic) {
  if (deterministic || options.positions.sequence_length != 0) return 0;
  index const most = most_documents(q.batch * q.sequence);
  return document_tables_bytes(most, kernels::document_tables::most_tables) + document_room(most);
}

/// At most what CUB's sort of so many pairs of 32-bit numbers takes: both lists once more, for each
/// tile of at least 1024 pairs 256 counters, for each 2^28 pairs and 8 bits 256 sums; in pieces.
[[nodiscard]] constexpr std::size_t sort_scratch(std::size_t count) {
  return 9 * count + (std::size_t{64} << 10);
}

/// Where embedding_backward's scratch has what: four lists of 32-bit numbers, open sums, the
/// sort's.
template <class T>
struct embedding_backward_scratch {
  explicit embedding_backward_scratch(index count, index columns)
      : list(scratch_piece(static_cast<std::size_t>(count) * sizeof(std::uint32_t))),
        open(scratch_piece(
            static_cast<std::size_t>(2 * kernels::sorted_tokens<T>::pieces(count) * columns) *
            sizeof(accumulate_t<T>))),
        sort(sort_scratch(static_cast<std::size_t>(count))) {}

  [[nodiscard]] std::size_t total() const { return 4 * list + open + sort; }

  std::size_t list, open, sort;
};

}  // namespace detail

template <class C, class T>
[[nodiscard]] std::size_t scratch_bytes(ops::matmul_arguments<C, T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::product_scratch<T>(a.c.empty(), a.a.extent(a.options.transpose_a ? 0 : 1));
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::affine_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::product_scratch<T>(a.y.empty(), a.x.extent(1));
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::squared_norm_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::sum_scratch<T>(a.x.size());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::sum_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::sum_scratch<T>(a.x.size());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::exact_squared_norm_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::exact_squared_norm_blocks(a.x.size()) * kernels::exact_words *
         sizeof(std::int64_t);
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::layer_norm_backward_weight_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::norm_weight_gradient_scratch<T>(a.x, !a.dweight.empty() || !a.dbias.empty());
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::rms_norm_backward_weight_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::norm_weight_gradient_scratch<T>(a.x, true);
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::add_bias_backward_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  return detail::norm_weight_gradient_scratch<T>(a.dy, true);
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::embedding_backward_arguments<T> const& a,
                                        scratch_conditions const& /*on*/ = {}) {
  if (a.dy.empty() || a.dtable.empty()) return 0;
  return detail::embedding_backward_scratch<T>(a.dy.extent(0), a.dy.extent(1)).total();
}

/// That of the fused kernel, beside what its plan may ask for (commonly nothing).
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::attention_arguments<T> const& a,
                                        scratch_conditions const& on = {}) {
  if (!attention_forward_path(on.fused, a.out, a.lse.data(), a.q, a.k, a.v, a.options).fused)
    return 0;
  return scratch_piece(a.lse.empty() ? detail::attention_row_bytes<T>(a.q) : 0) +
         scratch_piece(detail::forward_tables_bytes(a.q, a.options));
}

/// That of the greedier kernels, plain or fused.
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::attention_backward_arguments<T> const& a,
                                        scratch_conditions const& on = {}) {
  return attention_backward_path(on.fused, a.dq, a.dk, a.dv, a.dout, a.q, a.k, a.v, a.out,
                                 a.lse.data(), a.options)
                 .fused
             ? detail::fused_backward_scratch<T>(a.q, a.k, on.deterministic) +
                   scratch_piece(detail::backward_tables_bytes(a.q, a.options, on.deterministic))
             : detail::attention_row_bytes<T>(a.q);
}

/// The part's result and lse, where a fused kernel makes them.
template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::extend_attention_arguments<T> const& a,
                                        scratch_conditions const& on = {}) {
  if (!extend_attention_path(on.fused, a.q, a.k, a.v, a.options).fused) return 0;
  return scratch_piece(detail::heads_bytes(a.q)) +
         scratch_piece(detail::attention_row_bytes<T>(a.q));
}

template <class T>
[[nodiscard]] std::size_t scratch_bytes(ops::extend_attention_backward_arguments<T> const& a,
                                        scratch_conditions const& on = {}) {
  if (!extend_attention_backward_path(on.fused, on.deterministic, a.dout, a.q, a.k, a.v, a.out,
                                      a.lse.data(), a.options)
           .fused)
    return detail::attention_row_bytes<T>(a.q);
  return detail::fused_backward_scratch<T>(a.q, a.k, on.deterministic) +
         scratch_piece(detail::heads_bytes(a.q)) + 2 * scratch_piece(detail::heads_bytes(a.k));
}

}  // namespace parallel::cuda
