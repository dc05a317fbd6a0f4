// Optimizers of whole tensors (Muon), as opposed to element-wise ones: the information that such an
// optimizer receives in addition to its flat ranges.
//
// A segment's tensors follow one another in one flat range, which ZeRO divides among ranks without
// regard to tensors, and the tensor axis may have divided the tensors before. An optimizer of whole
// tensors receives their positions. Its update has three calls: the computation on its own range,
// the exchange with the ranks that hold the rest, and the update of its own range. So the exchange
// is an action of a step's plan like any other.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string_view>
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
  std::size_t segment = 0;  ///< index in unit_tensors::segments
  index offset = 0;         ///< position of the piece's first element in the segment
  bool is_first_copy =
      true;  ///< no rank before this one along the tensor axis holds the same piece
};

/// A tensor and the pieces of it that this rank has: all of it, or a part, where other ranks along
/// the tensor axis have the rest.
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
  /// Whether the tensor is one undivided piece.
  [[nodiscard]] bool is_whole() const {
    return pieces.size() == 1 && pieces.front().slice->extents == extents();
  }
};

/// A flat range of `size` elements, padding included, of which a rank updates [begin, end).
struct segment_range {
  index size = 0;
  index begin = 0;
  index end = 0;
};

/// The tensors that one optimizer updates in one call: those of one unit of the model.
template <class T>
struct unit_tensors {
  std::vector<segment_range> segments;
  std::vector<trained_tensor<T>> tensors;

  /// Whether some tensor is complete only on several ranks of the tensor axis together.
  [[nodiscard]] bool is_divided() const {
    return !std::ranges::all_of(tensors, &trained_tensor<T>::is_whole);
  }
};

/// The ranks that exchange an update. `shards` connects the ranks that hold the equal ranges of a
/// segment, in their order. `slices` connects all ranks along the tensor axis (null: there is one).
template <class Comm>
struct update_groups {
  Comm* shards = nullptr;
  Comm* slices = nullptr;
};

/// An optimizer of whole tensors. It has these members, all called with the same unit_tensors<T>
/// `unit`:
///
/// - workspace_bytes<T>(unit): the size of its workspace; throws when it cannot train a tensor;
/// - begin_update(s, ranges, unit, workspace, info): enqueues the computation on its ranges;
/// - exchange(stream, groups, unit, workspace, requests): enqueues its sends and receives. With one
///   shard and no divided tensor it is not called (zero::exchanges_update), and begin_update alone
///   prepares finish_update;
/// - finish_update(s, ranges, unit, workspace, info): enqueues the update of its ranges.
///
/// `ranges` has an update_ranges for each segment. `workspace` is an arena of workspace_bytes. It
/// is empty at each call, but its memory keeps its content from begin_update to finish_update.
template <class O>
concept tensor_optimizer = requires(O const& o, unit_tensors<float> const& unit) {
  { o.template workspace_bytes<float>(unit) } -> std::same_as<std::size_t>;
};

/// Whether the optimizer, or the one that an any_optimizer holds, takes whole tensors.
template <class Optimizer>
[[nodiscard]] bool takes_whole_tensors(Optimizer const& o) {
  if constexpr (requires { o.takes_whole_tensors(); })
    return o.takes_whole_tensors();
  else
    return tensor_optimizer<Optimizer>;
}

/// Enqueues the last part of any optimizer's update of all ranges. An element-wise optimizer does
/// its whole update here; an optimizer of whole tensors does the part that follows the exchange.
template <class Optimizer, class Stream, class Ranges, class Tensors, class Info>
void finish_update(Optimizer const& o, Stream& s, Ranges const& ranges, Tensors const& unit,
                   arena& workspace, Info const& info) {
  if constexpr (tensor_optimizer<Optimizer>)
    o.finish_update(s, ranges, unit, workspace, info);
  else
    for (auto const& range : ranges) o.update(s, range, info);
}

}  // namespace parallel
