// The choice of kernels for attention on CUDA: a vendor's fused kernels, or our own plain ones. It
// is a pure function of the call and of the backend, and runs on any host.
//
// The fused kernels are several times faster, in the cases they support: bf16, whole sequences,
// queries and keys of the same part or keys of an earlier part, ALiBi, windows, shared key heads,
// packed documents. All other cases run on the plain kernels (attention_passes.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention/extend_attention.hpp>

namespace parallel::cuda {

/// The library and the device that are available.
struct attention_backend {
  /// The version of cuDNN that is linked, such as 91900; 0: none.
  int library = 0;
  /// The compute capability of the device, such as 90 for H100 and H200.
  int capability = 0;
};

struct attention_path {
  bool fused = false;
  /// The reason for the plain kernels, unless `fused`.
  std::string_view reason = {};
};

/// The position of query 0 relative to key 0: 0 if both belong to the same part of a sequence.
[[nodiscard]] inline index distance(ops::attention_options const& options) {
  auto const& positions = options.positions;
  return positions.sequence_length == 0 ? 0 : positions.first_query - positions.first_key;
}

namespace detail {

/// The memory of a heads_view, without its element type.
struct heads_memory {
  template <class T>
  heads_memory(ops::heads_view<T> const& view)  // NOLINT(google-explicit-constructor)
      : begin(reinterpret_cast<std::uintptr_t>(view.data)),
        end(begin + sizeof(T) * static_cast<std::size_t>((view.batch - 1) * view.batch_stride +
                                                         (view.sequence - 1) * view.row_stride +
                                                         view.heads * view.head_dim)),
        packable(begin % 16 == 0 && view.row_stride % 8 == 0 &&
                 (view.batch == 1 || view.batch_stride % 8 == 0)) {}

  [[nodiscard]] bool overlaps(heads_memory const& other) const {
    return begin < other.end && other.begin < end;
  }

  std::uintptr_t begin, end;  // the first element, one past the last
  bool packable;              // every row begins at a multiple of 16 bytes
};

/// The conditions of both passes. `views`: all that are read and written. `merged`: the result is
/// merged into that over other keys, so that these keys may be before all queries, and some rows
/// may see none of them.
template <class T>
[[nodiscard]] attention_path common_attention_path(
    attention_backend const& backend, ops::attention_options const& options,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    std::initializer_list<heads_memory> views, accumulate_t<T> const* lse, bool merged = false) {
  auto const plain = [](std::string_view reason) { return attention_path{false, reason}; };
  if (backend.library == 0) return plain("no library of fused kernels is linked");
  if (backend.library < 91600) return plain("cuDNN is older than 9.16");
  if (backend.capability < 80) return plain("the device is older than compute capability 8.0");
  if (!std::is_same_v<T, bf16>) return plain("elements are not bf16");
  if (options.dropout.is_active()) return plain("dropout uses other random numbers than cuDNN");
  if (options.softcap > 0.0) return plain("scores are capped");
  if (q.sequence != k.sequence) return plain("the numbers of queries and keys differ");
  if (index const offset = distance(options); offset != 0 && (!merged || offset < k.sequence))
    return plain(merged ? "not all keys are before the queries"
                        : "queries and keys have different positions");
  if (!options.document_begins.empty() && backend.capability < 90)
    return plain("the device is too old for documents: below compute capability 9.0");
  if (q.sequence < 2) return plain("there is only one position");
  if (q.head_dim % 8 != 0) return plain("head_dim is not a multiple of 8");
  if (q.head_dim > (backend.capability == 90 ? 256 : 128)) return plain("head_dim is too large");
  if (reinterpret_cast<std::uintptr_t>(lse) % 16 != 0 ||
      !std::ranges::all_of(views, [](auto const& view) { return view.packable; }))
    return plain("rows do not begin at multiples of 16 bytes");
  return {.fused = true};
}

}  // namespace detail

/// The path of `attention` with these arguments.
template <class T>
[[nodiscard]] attention_path attention_forward_path(
    attention_backend const& backend, ops::heads_view<T> const& out, accumulate_t<T> const* lse,
    ops::heads_view<T const> const& q, ops::heads_view<T const> const& k,
    ops::heads_view<T const> const& v, ops::attention_options const& options) {
  if (detail::heads_memory(out).overlaps(q)) return {false, "the result overlaps the queries"};
  return detail::common_attention_path<T>(backend, options, q, k, {out, q, k, v}, lse);
}

/// The path that attention_backward takes for these arguments, and why.
template <class T>
[[nodiscard]] attention_path attention_backward_path(
    attention_backend const& backend, ops::attention_backward_arguments<T> const& a) {
  return detail::common_attention_path<T>(
      backend, a.options, a.q, a.k, {a.dq, a.dk, a.dv, a.dout, a.q, a.k, a.v, a.out}, a.lse.data());
}

/// The path of `extend_attention`, whose fused result is in scratch before it is merged.
template <class T>
[[nodiscard]] attention_path extend_attention_path(attention_backend const& backend,
                                                   ops::heads_view<T const> const& q,
                                                   ops::heads_view<T const> const& k,
                                                   ops::heads_view<T const> const& v,
                                                   ops::attention_options const& options) {
  return detail::common_attention_path<T>(backend, options, q, k, {q, k, v}, nullptr, true);
}

/// The path of `extend_attention_backward`, whose gradients are in scratch likewise. The
/// deterministic fused kernel needs S x S bf16 numbers for each head, and ring attention is for
/// long sequences: above 1 GiB of these numbers the plain kernels are used, which need less memory.
template <class T>
[[nodiscard]] attention_path extend_attention_backward_path(
    attention_backend const& backend, bool deterministic,
    ops::extend_attention_backward_arguments<T> const& a) {
  constexpr index max_pairs = index{1} << 29;
  if (deterministic &&
      a.q.batch * a.q.heads * a.q.sequence > max_pairs / std::max<index>(1, a.k.sequence))
    return {false, "a deterministic gradient would take more than 1 GiB of scratch"};
  return detail::common_attention_path<T>(backend, a.options, a.q, a.k,
                                          {a.dout, a.q, a.k, a.v, a.out}, a.lse.data(), true);
}

}  // namespace parallel::cuda
