// training_groups: the communicators of one rank of a training mesh, made once, at the start.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <parallel/mesh/mesh.hpp>
#include <parallel/zero/stage.hpp>
#include <parallel/zero/unit_axes.hpp>

namespace parallel::train {

/// Every rank of `world` makes one at the same time. Does not move afterwards: layers and steppers
/// refer to its communicators.
template <class Comm>
class training_groups {
 public:
  /// Owns `world`. Throws when the layout does not fit its size.
  training_groups(Comm world, training_layout shape)
      : mesh_(std::move(world), shape),
        pipeline(mesh_.template along<axis::pipeline>()),
        shards(mesh_.template along<axis::shard>()),
        gathers(mesh_.template along<axis::shard>()),
        replicas(mesh_.template along<axis::replicate, axis::context>()),
        context(mesh_.template along<axis::context>()),
        tensor(mesh_.template along<axis::tensor>()) {}

  /// All ranks have other data and the whole model: replicas, or shards of a ZeRO stage.
  training_groups(Comm world, zero::stage stage)
      : training_groups(std::move(world), data_layout(stage, world.size())) {}

  training_groups(training_groups const&) = delete;
  training_groups& operator=(training_groups const&) = delete;

  [[nodiscard]] static training_layout data_layout(zero::stage stage, int ranks) {
    return stage == zero::stage::none ? training_layout{}.with<axis::replicate>(ranks)
                                      : training_layout{}.with<axis::shard>(ranks);
  }

  [[nodiscard]] Comm& world() { return mesh_.world(); }
  [[nodiscard]] training_layout const& shape() const { return mesh_.shape(); }

  /// Which of the equal parts of a global batch is this rank's, and of how many: ranks along the
  /// other axes have the same one. Context ranks have other rows of the same sequences.
  [[nodiscard]] int data_rank() {
    return shape().template position<axis::replicate, axis::shard>(world().rank());
  }
  [[nodiscard]] int data_ranks() const {
    return shape().template size<axis::replicate, axis::shard>();
  }

  /// Where this rank stands among those that hold the same stage's units.
  [[nodiscard]] zero::unit_place place() const {
    return {.shard = shards.rank(),
            .shards = shards.size(),
            .replica = replicas.rank(),
            .replicas = replicas.size(),
            .tensor = tensor.rank()};
  }

  [[nodiscard]] zero::unit_axes<Comm> axes() { return {&shards, &gathers, &replicas, &copies_}; }

  /// Makes the communicators of so many neighbours along the tensor axis that hold the same
  /// parameters, and whose gradients of them must be summed. Collective along that axis.
  void connect_copies(int ranks) {
    require(ranks >= 1 && tensor.size() % ranks == 0, "layout: ", ranks,
            " neighbours cannot share parameters along a tensor axis of ", tensor.size());
    if (ranks > 1 && !copies_.contains(ranks))
      copies_.emplace(ranks, tensor.split(tensor.rank() / ranks, "tensor"));
  }

 private:
  mesh<Comm> mesh_;
  std::map<int, Comm> copies_;

 public:
  Comm pipeline;
  Comm shards;
  Comm gathers;   // along shards too, for what happens at the same time
  Comm replicas;  // replicate x context
  Comm context;
  Comm tensor;
};

}  // namespace parallel::train
