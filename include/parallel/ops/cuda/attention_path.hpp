// Which kernels run an attention on CUDA: a vendor's fused ones, or our own plain ones. A pure
// function of what is asked and of what there is; runs on any host.
//
// The fused kernels are several times faster, for what they know: bf16, whole sequences, the same
// part of queries and keys or an earlier part of keys, ALiBi, windows, shared key heads, packed
// documents. Everything else is for the plain kernels (attention_passes.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention.hpp>

namespace parallel::cuda {

/// What there is to run on.
struct attention_backend {
  /// Of cuDNN as linked, such as 91900; 0: none.
  int library = 0;
  /// Of the device, such as 90 for H100 and H200.
  int capability = 0;
};

struct attention_path {
  bool fused = false;
  /// What the plain kernels are for, if not fused.
  std::string_view reason = {};
};

/// How far query 0 stands behind key 0: 0 where both are the same part of a sequence.
[[nodiscard]] inline index distance(ops::attention_options const& options) {
  auto const& positions = options.positions;
  return positions.sequence_length == 0 ? 0 : positions.first_query - positions.first_key;
}

namespace detail {

/// A heads_view without its element type: where it lies.
struct heads_place {
  template <class T>
  heads_place(ops::heads_view<T> const& view)  // NOLINT(google-explicit-constructor)
      : begin(reinterpret_cast<std::uintptr_t>(view.data)),
        end(begin + sizeof(T) * static_cast<std::size_t>((view.batch - 1) * view.batch_stride +
                                                         (view.sequence - 1) * view.row_stride +
                                                         view.heads * view.head_dim)),
        packable(begin % 16 == 0 && view.row_stride % 8 == 0 &&
                 (view.batch == 1 || view.batch_stride % 8 == 0)) {}

  [[nodiscard]] bool overlaps(heads_place const& other) const {
    return begin < other.end && other.begin < end;
  }

  std::uintptr_t begin, end;  // of the first element, beyond the last
  bool packable;              // every row begins at a multiple of 16 bytes
};

/// What both passes ask. `views`: all that are read and written. `merged`: into what queries saw
/// of other keys, so that those may stand before all queries, and some rows see none of them.
template <class T>
[[nodiscard]] attention_path common_attention_path(
    attention_backend const& there, ops::attention_options const& options,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    std::initializer_list<heads_place> views, accumulate_t<T> const* lse, bool merged = false) {
  auto const plain = [](std::string_view reason) { return attention_path{false, reason}; };
  if (there.library == 0) return plain("no library of fused kernels is linked");
  if (there.library < 91600) return plain("cuDNN is older than 9.16");
  if (there.capability < 80) return plain("the device is older than compute capability 8.0");
  if (!std::is_same_v<T, bf16>) return plain("elements are not bf16");
  if (options.dropout.active()) return plain("dropout has random numbers of our own");
  if (options.softcap > 0.0) return plain("scores are capped");
  if (q.sequence != k.sequence) return plain("queries and keys are not equally many");
  if (index const apart = distance(options); apart != 0 && (!merged || apart < k.sequence))
    return plain(merged ? "not all keys stand before the queries"
                        : "queries and keys stand at different positions");
  if (!options.document_begins.empty() && there.capability < 90)
    return plain("the device is too old for documents: below compute capability 9.0");
  if (q.sequence < 2) return plain("there is one position only");
  if (q.head_dim % 8 != 0) return plain("head_dim is not a multiple of 8");
  if (q.head_dim > (there.capability == 90 ? 256 : 128)) return plain("head_dim is too large");
  if (reinterpret_cast<std::uintptr_t>(lse) % 16 != 0 ||
      !std::ranges::all_of(views, [](auto const& view) { return view.packable; }))
    return plain("rows do not begin at multiples of 16 bytes");
  return {.fused = true};
}

}  // namespace detail

/// The path of `attention`, given what it is given.
template <class T>
[[nodiscard]] attention_path attention_forward_path(
    attention_backend const& there, ops::heads_view<T> const& out, accumulate_t<T> const* lse,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    ops::heads_view<T const> const& v, ops::attention_options const& options) {
  if (detail::heads_place(out).overlaps(q)) return {false, "the result takes the queries' place"};
  return detail::common_attention_path<T>(there, options, q, k, {out, q, k, v}, lse);
}

/// The path of `attention_backward`.
template <class T>
[[nodiscard]] attention_path attention_backward_path(
    attention_backend const& there, ops::heads_view<T> const& dq, ops::heads_view<T> const& dk,
    ops::heads_view<T> const& dv, ops::heads_view<T const> const& dout,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    ops::heads_view<T const> const& v, ops::heads_view<T const> const& out,
    accumulate_t<T> const* lse, ops::attention_options const& options) {
  return detail::common_attention_path<T>(there, options, q, k, {dq, dk, dv, dout, q, k, v, out},
                                          lse);
}

/// The path of `extend_attention`, whose results lie in scratch before they are merged.
template <class T>
[[nodiscard]] attention_path extend_attention_path(attention_backend const& there,
                                                   ops::heads_view<T const> const& q,
                                                   ops::heads_view<T const> const& k,
                                                   ops::heads_view<T const> const& v,
                                                   ops::attention_options const& options) {
  return detail::common_attention_path<T>(there, options, q, k, {q, k, v}, nullptr, true);
}

/// The path of `extend_attention_backward`, likewise. A deterministic one takes S x S bf16 numbers
/// for each head, and a ring is for long sequences: above 1 GiB of them the plain kernels take
/// less.
template <class T>
[[nodiscard]] attention_path extend_attention_backward_path(
    attention_backend const& there, bool deterministic, ops::heads_view<T const> const& dout,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    ops::heads_view<T const> const& v, ops::heads_view<T const> const& out,
    accumulate_t<T> const* lse, ops::attention_options const& options) {
  constexpr index most_pairs = index{1} << 29;
  if (deterministic && q.batch * q.heads * q.sequence > most_pairs / std::max<index>(1, k.sequence))
    return {false, "a deterministic gradient would take more than 1 GiB of scratch"};
  return detail::common_attention_path<T>(there, options, q, k, {dout, q, k, v, out}, lse, true);
}

}  // namespace parallel::cuda
