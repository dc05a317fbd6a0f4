// ZeRO levels (Rajbhandari et al., 2020): which memory every rank holds whole, and which 1/N of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/core/tensor.hpp>

namespace parallel::zero {

/// Bytes per parameter in bf16 with fp32 gradients and N shards: none 18, optimizer 6 + 12/N,
/// gradients 2 + 16/N, parameters 18/N, the last two plus the buffers that units use in turn.
enum class level : std::uint8_t {
  none = 0,        // plain data parallelism: everything whole on every rank
  optimizer = 1,   // master weights and optimizer states are sharded
  gradients = 2,   // gradients too, unless they are reduced once a step (stepper_options)
  parameters = 3,  // the parameters too, which are gathered before use
};

/// The order in which gradients are summed. `canonical_tree`: the leaves are microbatches of the
/// global batch, combined by an aligned binary tree over their numbers whichever ranks hold them,
/// so that parameters have the same bits for every number of data ranks, level and schedule. It
/// costs a gradient buffer for every level of a rank's own tree; from level gradients on these are
/// whole. Every data rank but the last with data holds the same power of two of consecutive
/// microbatches (data::aligned_share_of).
enum class reduction_order : std::uint8_t { by_rank, canonical_tree };

/// The type in which gradients are sent between data ranks: the type in which they are summed, or
/// bf16, which halves their bytes and rounds the sent values (gradient_sums.hpp); sums stay in
/// float.
enum class reduce_dtype : std::uint8_t { full, bf16 };

/// The memory of optimizer states, and of master weights that are not the values themselves: the
/// device's, or the host's, which the device reads and writes once a step (ZeRO-Offload, Ren et
/// al., 2021, without its CPU optimizer). In bf16 the host's memory saves the device 12 bytes a
/// parameter and costs 24 over its bus, divided by the number of shards.
enum class optimizer_memory : std::uint8_t { device, host };

/// The number of states that the optimizers keep for every element: the same in all groups, or by
/// group.
class state_counts {
 public:
  state_counts(std::size_t uniform_count)
      : uniform_count_(uniform_count) {}  // NOLINT(google-explicit-constructor)

  template <class Optimizers>
  [[nodiscard]] static state_counts from_optimizers(Optimizers const& optimizers) {
    state_counts out(0);
    for (auto const& optimizer : optimizers)
      out.by_group_.push_back(optimizer.state_names().size());
    return out;
  }

  [[nodiscard]] std::size_t for_group(int group) const {
    return by_group_.empty() ? uniform_count_ : by_group_.at(static_cast<std::size_t>(group));
  }

 private:
  std::size_t uniform_count_;
  std::vector<std::size_t> by_group_;
};

/// A range of elements of a flat segment.
struct range {
  index begin = 0;
  index end = 0;
  [[nodiscard]] constexpr index size() const { return end - begin; }
  friend bool operator==(range const&, range const&) = default;
};

/// Rank `rank`'s equal share of a segment of `size` elements (a multiple of `ranks`):
/// `shard_of(12, 1, 3)` is [4, 8).
[[nodiscard]] constexpr range shard_of(index size, index rank, index ranks) {
  index const part = size / ranks;
  return {rank * part, (rank + 1) * part};
}

/// The position of a rank among those that hold the same units. Ranks along `shards` hold different
/// shards of the memory that the level shards; ranks along `replicas` hold the same shards and
/// different data; `tensor` is the position among slices of the same layers.
struct unit_position {
  index shard = 0;
  index shards = 1;
  index replica = 0;
  index replicas = 1;
  index tensor = 0;
  bool is_primary =
      true;  ///< false: another stage of the pipeline accounts for the unit, which is tied

  /// The number of ranks over which the gradients of different data are summed.
  [[nodiscard]] constexpr index data_ranks() const { return shards * replicas; }

  /// The range of a segment of `size` elements that this rank owns, as all its replicas do.
  [[nodiscard]] constexpr range owned(index size) const { return shard_of(size, shard, shards); }

  /// The range that this rank fills when values come from outside, from a file say: its equal part
  /// of the range that it owns; its replicas fill the other parts. Of a segment of 12 elements in 3
  /// shards with 2 replicas, both replicas of shard 1 own [4, 8):
  ///
  ///     unit_position{.shard = 1, .shards = 3, .replica = 0, .replicas = 2}.filled(12)  →  [4, 6)
  ///     unit_position{.shard = 1, .shards = 3, .replica = 1, .replicas = 2}.filled(12)  →  [6, 8)
  [[nodiscard]] constexpr range filled(index size) const {
    auto const owned_range = owned(size);
    auto const part = shard_of(owned_range.size(), replica, replicas);
    return {owned_range.begin + part.begin, owned_range.begin + part.end};
  }

  /// The range for which this rank accounts when elements are summed or saved over all ranks, so
  /// that every element counts once: the range that it fills, unless an earlier one of
  /// `replication` neighbours along the tensor axis holds the same elements.
  [[nodiscard]] constexpr range primary_range(index size, int replication) const {
    auto const filled_range = filled(size);
    if (!is_primary || tensor % replication != 0) return {owned(size).begin, owned(size).begin};
    return filled_range;
  }

  /// The position for a unit of experts that `ranks` neighbours divide among them, in the order of
  /// replicas and then shards: those that are left hold the same experts. Of 4 shards and 2 ranks,
  /// shard 2 is the first rank of the second pair, and so shard 1 of 2.
  [[nodiscard]] constexpr unit_position among_experts(index ranks) const {
    unit_position out = *this;
    index const from_shards = ranks < shards ? ranks : shards;
    index const from_replicas = ranks / from_shards;
    out.shards = shards / from_shards;
    out.shard = shard / from_shards;
    out.replicas = replicas / from_replicas;
    out.replica = replica / from_replicas;
    return out;
  }

  friend bool operator==(unit_position const&, unit_position const&) = default;
};

/// Whether each rank holds only its shard of a unit's values.
[[nodiscard]] constexpr bool shards_parameters(level kind, unit_position const& position) {
  return kind >= level::parameters && position.shards > 1;
}
/// Whether each rank holds only its shard of the unit's gradients, which must then be reduced after
/// `every_microbatch`; the leaves of a tree are whole.
[[nodiscard]] constexpr bool shards_gradients(level kind, unit_position const& position,
                                              reduction_order order, bool every_microbatch = true) {
  return kind >= level::gradients && position.shards > 1 && order == reduction_order::by_rank &&
         every_microbatch;
}

/// The position of rank `rank` of `ranks` that have different data and the whole model.
[[nodiscard]] constexpr unit_position data_position(level kind, index rank, index ranks) {
  if (kind == level::none) return {.replica = rank, .replicas = ranks};
  return {.shard = rank, .shards = ranks};
}

}  // namespace parallel::zero
