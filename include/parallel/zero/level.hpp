// ZeRO levels (Rajbhandari et al., 2020): what every rank keeps whole, and what it keeps 1/N of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/core/tensor.hpp>

namespace parallel::zero {

/// Bytes per parameter in bf16 with fp32 gradients, N shards: none 18, optimizer 6 + 12/N,
/// gradients 2 + 16/N, parameters 18/N, the last two and the buffers that units take turns in.
enum class level : std::uint8_t {
  none = 0,        // plain data parallelism: everything whole on every rank
  optimizer = 1,   // master weights and optimizer states are sharded
  gradients = 2,   // and gradients, unless they are reduced once a step (stepper_options)
  parameters = 3,  // and the parameters, gathered before they are used
};

/// In which order gradients are summed. `canonical_tree`: the leaves are microbatches of the global
/// batch, combined by an aligned binary tree over their numbers whatever ranks hold them, so that
/// parameters have the same bits for every number of data ranks, level and schedule. It costs a
/// gradient buffer for every level of a rank's own tree; from level gradients on these are whole.
/// Every data rank but the last with data holds the same power of two of consecutive microbatches
/// (data::aligned_share_of).
enum class reduction_order : std::uint8_t { by_rank, canonical_tree };

/// In which type gradients travel between ranks of other data: that in which they are summed, or
/// bf16, which halves their bytes and rounds what travels (gradient_sums.hpp); sums stay in float.
enum class reduce_dtype : std::uint8_t { full, bf16 };

/// Where optimizer states, and master weights that are not the values themselves, lie: with the
/// rest, or in the host's memory, which the device reads and writes once a step (ZeRO-Offload, Ren
/// et al., 2021, without its CPU optimizer). In bf16 it spares the device 12 bytes a parameter and
/// costs 24 over its bus, divided by shards.
enum class optimizer_memory : std::uint8_t { device, host };

/// How many states of every element the optimizers keep: in every group as many, or by group.
class state_counts {
 public:
  state_counts(std::size_t alike) : alike_(alike) {}  // NOLINT(google-explicit-constructor)

  template <class Optimizers>
  [[nodiscard]] static state_counts by(Optimizers const& optimizers) {
    state_counts out(0);
    for (auto const& one : optimizers) out.by_group_.push_back(one.state_names().size());
    return out;
  }

  [[nodiscard]] std::size_t of(int group) const {
    return by_group_.empty() ? alike_ : by_group_.at(static_cast<std::size_t>(group));
  }

 private:
  std::size_t alike_;
  std::vector<std::size_t> by_group_;
};

/// A range of elements of a flat segment.
struct range {
  index begin = 0;
  index end = 0;
  [[nodiscard]] constexpr index size() const { return end - begin; }
  friend bool operator==(range const&, range const&) = default;
};

/// Rank `rank`'s equal share of a segment of `size` elements (a multiple of `ranks`).
[[nodiscard]] constexpr range shard_of(index size, index rank, index ranks) {
  index const part = size / ranks;
  return {rank * part, (rank + 1) * part};
}

/// Where a rank stands among those that hold the same units. Ranks along `shards` hold different
/// shards of what the level shards; along `replicas` the same shards and other data; `tensor` is
/// the place among slices of the same layers.
struct unit_place {
  index shard = 0;
  index shards = 1;
  index replica = 0;
  index replicas = 1;
  index tensor = 0;
  bool is_primary =
      true;  // else another stage of the pipeline accounts for the unit, which is tied

  /// Ranks over which gradients of other data are summed.
  [[nodiscard]] constexpr index data_ranks() const { return shards * replicas; }

  /// The range of a segment of `size` elements that this rank owns, as all its replicas do.
  [[nodiscard]] constexpr range owned(index size) const { return shard_of(size, shard, shards); }

  /// The range that this rank fills when values come from outside, a file say: its equal part of
  /// what it owns, whose others its replicas fill.
  [[nodiscard]] constexpr range filled(index size) const {
    auto const own = owned(size);
    auto const part = shard_of(own.size(), replica, replicas);
    return {own.begin + part.begin, own.begin + part.end};
  }

  /// The range for which this rank accounts when something is summed or saved over all ranks, so
  /// that every element counts once: what it fills, unless an earlier of `replication` neighbours
  /// along the tensor axis holds the same.
  [[nodiscard]] constexpr range primary_range(index size, int replication) const {
    auto const mine = filled(size);
    if (!is_primary || tensor % replication != 0) return {owned(size).begin, owned(size).begin};
    return mine;
  }

  friend bool operator==(unit_place const&, unit_place const&) = default;
};

/// Whether ranks hold their shards of a unit's values alone.
[[nodiscard]] constexpr bool shards_parameters(level kind, unit_place const& place) {
  return kind >= level::parameters && place.shards > 1;
}
/// Whether they hold their shards of its gradients alone, for which these must be reduced after
/// `every_microbatch`; a tree's leaves are whole.
[[nodiscard]] constexpr bool shards_gradients(level kind, unit_place const& place,
                                              reduction_order order, bool every_microbatch = true) {
  return kind >= level::gradients && place.shards > 1 && order == reduction_order::by_rank &&
         every_microbatch;
}

/// Rank `rank` of `ranks` that have other data and the whole model.
[[nodiscard]] constexpr unit_place data_place(level kind, index rank, index ranks) {
  if (kind == level::none) return {.replica = rank, .replicas = ranks};
  return {.shard = rank, .shards = ranks};
}

}  // namespace parallel::zero
