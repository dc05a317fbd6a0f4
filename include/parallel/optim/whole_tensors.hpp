// Optimizers that need whole tensors (Muon) beside those that work element by element: what such an
// optimizer is given besides its flat ranges.
//
// A segment's tensors lie one after another in one flat range, which ZeRO divides among ranks
// without regard to tensors, and the tensor axis may have divided the tensors before. An optimizer
// of whole tensors is told where they lie. Its update comes in three: what it computes of its own
// range, what it exchanges with those that hold the rest, and the update of its own range. So the
// exchange is an action of a step's plan as any other.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/optim/concepts.hpp>

namespace parallel {

/// A parameter that is a tensor, or a slice of one.
template <class T>
struct tensor_piece {
  parameter_base<T> const* slice;
  std::size_t segment = 0;  // of unit_tensors::segments
  index offset = 0;         // of its first element there
  bool counts = true;       // no rank before this one along the tensor axis holds the same
};

/// A tensor of which this rank has these pieces: all of it, or others along the tensor axis have
/// the rest.
template <class T>
struct trained_tensor {
  std::vector<tensor_piece<T>> pieces;

  [[nodiscard]] std::string_view name() const { return pieces.front().slice->name; }
  [[nodiscard]] std::vector<index> const& extents() const {
    return pieces.front().slice->tensor_extents();
  }
  [[nodiscard]] index size() const {
    index product = 1;
    for (index const extent : extents()) product *= extent;
    return product;
  }
  /// Whether it lies in one piece, as it is.
  [[nodiscard]] bool whole() const {
    return pieces.size() == 1 && pieces.front().slice->extents == extents();
  }
};

/// A flat range of `size` elements, padding included, of which a rank updates [begin, end).
struct segment_range {
  index size = 0;
  index begin = 0;
  index end = 0;
};

/// What is updated at once: the tensors of one unit and one optimizer.
template <class T>
struct unit_tensors {
  std::vector<segment_range> segments;
  std::vector<trained_tensor<T>> tensors;

  /// Whether all of some tensor is on several ranks along the tensor axis alone.
  [[nodiscard]] bool divided() const {
    return !std::ranges::all_of(tensors, &trained_tensor<T>::whole);
  }
};

/// Who has the rest: `shards` connects the ranks that hold a segment's equal ranges in order,
/// `slices` all ranks along the tensor axis (null: there is one).
template <class Comm>
struct update_groups {
  Comm* shards = nullptr;
  Comm* slices = nullptr;
};

/// An optimizer of whole tensors has, all given the same unit_tensors<T> `where`,
///
/// - workspace_bytes<T>(where): the memory it works in, or an error when it cannot train one;
/// - begin_update(s, ranges, where, workspace, info): enqueues what it computes of its ranges;
/// - exchange(stream, groups, where, workspace, requests): enqueues what it sends and receives; it
///   is not called where there is nothing to exchange, with one shard and no divided tensor
///   (zero::exchanges_update): then begin_update has all that finish_update needs;
/// - finish_update(s, ranges, where, workspace, info): enqueues the update of its ranges;
///
/// where `ranges` has an update_ranges for each segment, and `workspace` is an arena of so many
/// bytes, empty at each call, whose memory keeps its content from the first to the last.
template <class O>
concept tensor_optimizer = requires(O const& o, unit_tensors<float> const& where) {
  { o.template workspace_bytes<float>(where) } -> std::same_as<std::size_t>;
};

/// Whether the optimizer, or the one that was chosen of several, takes whole tensors.
template <class Optimizer>
[[nodiscard]] bool takes_whole_tensors(Optimizer const& o) {
  if constexpr (requires { o.takes_whole_tensors(); })
    return o.takes_whole_tensors();
  else
    return tensor_optimizer<Optimizer>;
}

/// Enqueues the update of all ranges by any optimizer: of an element-wise one at once, of one of
/// whole tensors what is left when the rest has been exchanged.
template <class Optimizer, class Stream, class Ranges, class Tensors, class Info>
void finish_update(Optimizer const& o, Stream& s, Ranges const& ranges, Tensors const& where,
                   arena& workspace, Info const& info) {
  if constexpr (tensor_optimizer<Optimizer>)
    o.finish_update(s, ranges, where, workspace, info);
  else
    for (auto const& one : ranges) o.update(s, one, info);
}

}  // namespace parallel
