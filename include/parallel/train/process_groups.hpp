// process_groups: the communicators of one rank of a training mesh, constructed once, at the start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/mesh/mesh.hpp>
#include <parallel/zero/level.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::train {

/// The position of rank `rank` of a layout among the ranks that hold the same stage's units. From
/// level optimizer on context ranks hold other shards, since their gradients are other addends;
/// without ZeRO they are replicas.
[[nodiscard]] constexpr zero::unit_position place_in(training_layout const& shape,
                                                     zero::level level, int rank = 0) {
  zero::unit_position out{.tensor = shape.coordinate<axis::tensor>(rank)};
  bool const sharded = level != zero::level::none;
  out.shards = sharded ? shape.size<axis::shard, axis::context>() : shape.degree<axis::shard>();
  out.shard = sharded ? shape.position<axis::shard, axis::context>(rank)
                      : shape.coordinate<axis::shard>(rank);
  out.replicas =
      sharded ? shape.degree<axis::replicate>() : shape.size<axis::replicate, axis::context>();
  out.replica = sharded ? shape.coordinate<axis::replicate>(rank)
                        : shape.position<axis::replicate, axis::context>(rank);
  return out;
}

/// Why `ranks` neighbours among those at positions like `place` cannot divide experts; empty: they
/// can.
[[nodiscard]] inline std::string broken_by_expert_ranks(zero::unit_position const& place,
                                                        int ranks) {
  bool const fits =
      ranks >= 1 && (place.shards % ranks == 0 ||
                     (ranks % place.shards == 0 && place.replicas % (ranks / place.shards) == 0));
  if (fits) return {};
  return concat(
      "experts: ", ranks, " ranks cannot divide experts, where ", place.shards,
      " ranks have different shards and ", place.replicas,
      " the same; give a divisor of the one, or that number times a divisor of the other");
}

namespace detail {

template <class Comm>
struct require_split {
  static_assert(has_split<Comm>,
                "the communicator lacks what has_split (parallel/comm/concepts.hpp) asks for");
  static constexpr bool value = has_split<Comm>;
};

}  // namespace detail

/// A communicator that can be split; for another one, the compiler says what it lacks.
template <class Comm>
concept checked_communicator = detail::require_split<Comm>::value;

/// Every rank of `world` constructs one at the same time. It must not move afterwards: layers and
/// steppers refer to its communicators.
template <class Comm>
class process_groups {
 public:
  /// For steps of that ZeRO level. Owns `world`. `expert_ranks`: the neighbours among the ranks
  /// with different data that divide experts. Throws when the layout does not fit its size.
  process_groups(Comm&& world, training_layout shape, zero::level level, int expert_ranks = 1)
      : mesh_(std::move(world), shape),
        level_(level),
        experts_(connect_experts(expert_ranks)),
        pipeline(mesh_.template split_along<axis::pipeline>()),
        shards(split_along_shards()),
        gathers(split_along_shards()),
        replicas(level == zero::level::none
                     ? mesh_.template split_along<axis::replicate, axis::context>()
                     : mesh_.template split_along<axis::replicate>()),
        context(mesh_.template split_along<axis::context>()),
        tensor(mesh_.template split_along<axis::tensor>()) {
    connect_neighbours(pipeline);
  }

  /// All ranks have other data and the whole model: they are replicas, or shards of a ZeRO stage.
  /// The parameters are references, since arguments may be moved from in any order.
  process_groups(Comm&& world, zero::level level)
      : process_groups(std::move(world), data_layout(level, world.size()), level) {}

  /// The same over a new communicator of the ranks of `whole`, which stays its owner's.
  process_groups(Comm& whole, zero::level level)
      : process_groups(whole.split(coloring::single_color()), level) {}

  process_groups(process_groups&&) = delete;

  [[nodiscard]] static training_layout data_layout(zero::level level, int ranks) {
    return level == zero::level::none ? training_layout{}.with_degree<axis::replicate>(ranks)
                                      : training_layout{}.with_degree<axis::shard>(ranks);
  }

  [[nodiscard]] Comm& world() { return mesh_.world(); }
  [[nodiscard]] training_layout const& shape() const { return mesh_.shape(); }
  [[nodiscard]] zero::level level() const { return level_; }

  /// The number of this rank's part of a global batch, and the number of parts: ranks along the
  /// other axes have the same part. Context ranks have other rows of the same sequences.
  [[nodiscard]] int data_rank() {
    return shape().template position<axis::replicate, axis::shard>(world().rank());
  }
  [[nodiscard]] int data_ranks() const {
    return shape().template size<axis::replicate, axis::shard>();
  }

  /// The position of this rank among those that hold the same stage's units.
  [[nodiscard]] zero::unit_position place() { return place_in(shape(), level_, world().rank()); }

  /// The communicators of units that `expert_ranks` neighbours divide by experts.
  [[nodiscard]] zero::shard_groups<Comm> axes(int expert_ranks = 1) {
    if (expert_ranks == 1) return {&shards, &gathers, &replicas, &replication_};
    require(experts_ && experts_->ranks.size() == expert_ranks,
            "a unit's experts are divided among ", expert_ranks,
            " ranks, but the process groups were made for ", this->expert_ranks());
    return {&experts_->shards, &experts_->gathers, &experts_->replicas, &replication_};
  }

  /// The ranks that divide experts with this one; null: this rank has all.
  [[nodiscard]] Comm* experts() { return experts_ ? &experts_->ranks : nullptr; }
  [[nodiscard]] int expert_ranks() { return experts_ ? experts_->ranks.size() : 1; }

  /// Splits off the communicators of this many neighbours along the tensor axis that hold the same
  /// parameters, whose gradients must be summed. Collective along that axis.
  void connect_replicas(int ranks) {
    require(ranks >= 1 && tensor.size() % ranks == 0, "layout: ", ranks,
            " neighbours cannot share parameters along a tensor axis of ", tensor.size());
    if (ranks > 1 && !replication_.contains(ranks))
      replication_.emplace(
          ranks, tensor.split(coloring([ranks](int rank) { return rank / ranks; }), "tensor"));
  }

 private:
  [[nodiscard]] Comm split_along_shards() {
    return level_ == zero::level::none || shape().template degree<axis::context>() == 1
               ? mesh_.template split_along<axis::shard>()
               : mesh_.template split_along<axis::shard, axis::context>();
  }

  /// The ranks that divide experts, and those that hold the same ones.
  struct expert_groups {
    Comm ranks, shards, gathers, replicas;
  };

  [[nodiscard]] std::optional<expert_groups> connect_experts(int ranks) {
    if (ranks == 1) return std::nullopt;
    auto const dense = place_in(shape(), level_);
    if (auto const problem = broken_by_expert_ranks(dense, ranks); !problem.empty()) fail(problem);
    int const shard_count = static_cast<int>(dense.among_experts(ranks).shards);
    auto data = mesh_.template split_along<axis::replicate, axis::shard, axis::context>();
    auto holders = data.split(coloring([ranks](int rank) { return rank % ranks; }), "same experts");
    auto const same_replica = [=](int rank) { return rank / shard_count; };
    return expert_groups{data.split(coloring([ranks](int rank) { return rank / ranks; }), "expert"),
                         holders.split(coloring(same_replica), "shard of experts"),
                         holders.split(coloring(same_replica), "shard of experts"),
                         holders.split(coloring([=](int rank) { return rank % shard_count; }),
                                       "replicate of experts")};
  }

  mesh<Comm> mesh_;
  zero::level level_;
  std::optional<expert_groups> experts_;
  std::map<int, Comm> replication_;

 public:
  Comm pipeline;
  Comm shards;    ///< shard x context; without ZeRO only shard, which is 1
  Comm gathers;   ///< the same ranks as shards, for exchanges at the same time
  Comm replicas;  ///< replicate; without ZeRO replicate x context
  Comm context;
  Comm tensor;
};

/// The specialisation for a communicator that does not meet the requirements: its only purpose is
/// the compiler's error message.
template <class Comm>
requires(!has_split<Comm>) class process_groups<Comm> : detail::require_split<Comm> {
 public:
  process_groups(Comm&&, training_layout, zero::level, int = 1) {}
  process_groups(Comm&&, zero::level) {}
  process_groups(Comm&, zero::level) {}
};

}  // namespace parallel::train
