// shard_groups: the communicators that keep the ranks' parts of units consistent.
#pragma once

#include <map>

#include <parallel/core/parameter.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel::zero {

/// Each connects the ranks that `unit_position` counts along the axis of that name; all are
/// borrowed.
template <class Comm>
struct shard_groups {
  Comm* shards = nullptr;
  Comm* gathers = nullptr;  // along shards too: for values, concurrently with gradients
  Comm* replicas = nullptr;
  std::map<int, Comm>* replication = nullptr;  // neighbours along the tensor axis, by their number

  /// The groups for optimizers of whole tensors; `slices`: the number of ranks of the tensor axis.
  [[nodiscard]] update_groups<Comm> for_updates(int slices) const {
    return {shards, slices > 1 ? &replication->at(slices) : nullptr};
  }

  /// The ranks whose gradients of the same elements are addends; null when there are none.
  [[nodiscard]] Comm* addends(parameter_replication replication_of_parameter) const {
    return replication_of_parameter.partial && replication_of_parameter.ranks > 1
               ? &replication->at(replication_of_parameter.ranks)
               : nullptr;
  }
};

}  // namespace parallel::zero
