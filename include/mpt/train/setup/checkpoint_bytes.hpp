// checkpoint_bytes: the size of a run's checkpoints, before it has written one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <parallel/core/dtype.hpp>

namespace mpt {

/// Bytes of all tensors in a checkpoint of a run with elements T: master weights and optimizer
/// states of what is trained, values of what is frozen, everything once. The files' headers and the
/// manifest are not counted.
template <class T>
[[nodiscard]] std::size_t checkpoint_bytes(train_config const& config) {
  model<T> net(config.model);
  auto const groups = groups_of(config.optimizer, net);
  std::size_t bytes = 0;
  net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters([&](auto const& parameter) {
      std::size_t elements = 1;
      for (auto const extent : parameter.extents) elements *= static_cast<std::size_t>(extent);
      auto const key = groups.key_of(parameter.name);
      std::size_t const states = config.checkpoint.save_weights_only
                                     ? 0
                                     : groups.optimizers[key.group].state_names().size();
      bytes +=
          elements * (key.trainable ? sizeof(parallel::accumulate_t<T>) * (1 + states) : sizeof(T));
    });
  });
  return bytes;
}

}  // namespace mpt
