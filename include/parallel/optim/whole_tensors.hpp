// Optimizers that need whole tensors (Muon) beside those that work element by element: what such an
// optimizer is given besides its flat ranges.
//
// A segment's tensors lie one after another in one flat range, which ZeRO divides among ranks
// without regard to tensors. An optimizer of whole tensors is told where they lie and may exchange
// with the ranks that hold the rest; it writes its own range alone, as every other does.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include <parallel/core/tensor.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/optim/concepts.hpp>

namespace parallel {

/// A tensor of a segment.
struct segment_tensor {
  std::string_view name;
  std::span<index const> extents;        // of what of it is in the segment
  std::span<index const> whole_extents;  // others when the tensor axis divides it
  index offset = 0;                      // of its first element in the segment

  [[nodiscard]] index size() const {
    index product = 1;
    for (index const extent : extents) product *= extent;
    return product;
  }
};

/// A segment of `size` elements, padding included, of which a rank updates [begin, end).
struct segment_tensors {
  std::span<segment_tensor const> tensors;
  index size = 0;
  index begin = 0;
  index end = 0;
};

/// How an update reaches the rest of a segment: `shards` connects the ranks that hold its equal
/// ranges in order, for exchanges on `traffic`; `workspace` has what `workspace_bytes` said.
template <class Comm, class Traffic>
struct shard_exchange {
  Comm* shards;
  Traffic* traffic;
  arena* workspace;
};

/// An optimizer whose update(stream, ranges, where, exchange, info) takes a segment's tensors.
/// workspace_bytes<T>(where) gives the memory it works in, or throws when it cannot train one.
template <class O>
concept tensor_optimizer = requires(O const& o, segment_tensors const& where) {
  { o.template workspace_bytes<float>(where) } -> std::same_as<std::size_t>;
};

/// The memory in which any optimizer updates a segment of elements T; element-wise ones need none.
template <class T, class Optimizer>
[[nodiscard]] std::size_t workspace_bytes(Optimizer const& o, segment_tensors const& where) {
  if constexpr (tensor_optimizer<Optimizer>)
    return o.template workspace_bytes<T>(where);
  else
    return 0;
}

/// Enqueues the update of a rank's range of a segment by any optimizer.
template <class Optimizer, class Stream, class T, reduced_gradient Gradient, class Exchange>
void update_segment(Optimizer const& o, Stream& s, update_ranges<T, Gradient> const& ranges,
                    segment_tensors const& where, Exchange const& exchange,
                    step_info<accumulate_t<T>> const& info) {
  if constexpr (tensor_optimizer<Optimizer>)
    o.update(s, ranges, where, exchange, info);
  else
    o.update(s, ranges, info);
}

}  // namespace parallel
