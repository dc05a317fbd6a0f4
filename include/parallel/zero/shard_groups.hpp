// shard_groups: the communicators by which ranks exchange the values and gradients of units.
#pragma once

#include <map>

#include <parallel/core/parameter.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel::zero {

/// The communicators of a rank. `shards` and `replicas` connect the ranks along the axes of these
/// names in `unit_position`. The communicators are borrowed.
template <class Comm>
struct shard_groups {
  Comm* shards = nullptr;
  Comm* gathers =
      nullptr;  ///< the ranks of `shards` again, for values, while `shards` has gradients
  Comm* replicas = nullptr;
  /// By number of ranks: that many neighbours along the tensor axis, which share parameters.
  std::map<int, Comm>* replication = nullptr;

  /// The groups for optimizers that need whole tensors; `slices`: the number of tensor ranks.
  [[nodiscard]] update_groups<Comm> for_updates(int slices) const {
    return {shards, slices > 1 ? &replication->at(slices) : nullptr};
  }

  /// The ranks whose gradients of a parameter must be summed; null if this rank's are complete.
  [[nodiscard]] Comm* addends(parameter_replication replication_of_parameter) const {
    return replication_of_parameter.partial && replication_of_parameter.ranks > 1
               ? &replication->at(replication_of_parameter.ranks)
               : nullptr;
  }
};

}  // namespace parallel::zero
