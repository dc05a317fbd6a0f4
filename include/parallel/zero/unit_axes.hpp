// unit_axes: the communicators that keep the ranks' parts of units consistent.
#pragma once

#include <map>

#include <parallel/core/parameter.hpp>

namespace parallel::zero {

/// Each connects the ranks that `unit_place` counts along the axis of that name. All are borrowed.
template <class Comm>
struct unit_axes {
  Comm* shards = nullptr;
  Comm* gathers = nullptr;  // along shards too: for values, at the same time as gradients
  Comm* replicas = nullptr;
  std::map<int, Comm>* copies = nullptr;  // neighbours along the tensor axis, by their number

  /// Those whose gradients of the same elements are addends; null when there are none.
  [[nodiscard]] Comm* addends(parameter_copies how) const {
    return how.partial && how.ranks > 1 ? &copies->at(how.ranks) : nullptr;
  }
};

}  // namespace parallel::zero
