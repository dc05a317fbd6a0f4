// shard_groups: the communicators that keep the ranks' parts of units consistent.
#pragma once

#include <map>

#include <parallel/core/parameter.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel::zero {

/// Each connects the ranks that `unit_place` counts along the axis of that name. All are borrowed.
template <class Comm>
struct shard_groups {
  Comm* shards = nullptr;
  Comm* gathers = nullptr;  // along shards too: for values, at the same time as gradients
  Comm* replicas = nullptr;
  std::map<int, Comm>* replication = nullptr;  // neighbours along the tensor axis, by their number

  /// What optimizers of whole tensors exchange along; `slices`: ranks of the tensor axis.
  [[nodiscard]] update_groups<Comm> of_updates(int slices) const {
    return {shards, slices > 1 ? &replication->at(slices) : nullptr};
  }

  /// The ranks whose gradients of the same elements are addends; null when there are none.
  [[nodiscard]] Comm* addends(parameter_replication how) const {
    return how.partial && how.ranks > 1 ? &replication->at(how.ranks) : nullptr;
  }
};

}  // namespace parallel::zero
