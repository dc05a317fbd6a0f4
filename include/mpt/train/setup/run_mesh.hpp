// run_mesh: the ranks of a run from the view of one rank: its groups along the mesh's axes, the
// streams of the exchanges inside a pass, and its share of the data.
//
// Ranks are connected by two communicators, which may be the same: one for control messages in the
// host's memory (agreement, checkpoints, texts) and one for exchanges of the device's memory, from
// which the groups are split.
#pragma once

#include <concepts>
#include <deque>
#include <optional>

#include <mpt/model/groups.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/data/shared_reading.hpp>
#include <mpt/train/setup/layout.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {

/// `Device`: holds the exchanged memory; `Comm`: the type of its communicators.
template <class Device, class Comm = any_communicator>
class run_mesh {
 public:
  using stream_type = parallel::comm_stream<Device, Comm>;

  /// Collective over `control` and `exchanges`, which connect the same ranks in the same order.
  /// `layout`: of that many ranks, as run_layout returns it. `control` and `device` must outlive
  /// it.
  run_mesh(execution_config const& execution, training_layout const& layout,
           any_communicator& control, Comm& exchanges, Device const& device)
      : config_(execution.parallelism),
        control_(control),
        ranks_(exchanges.split(parallel::coloring::single_color()), layout, level_of(execution),
               execution.parallelism.expert),
        device_(device) {
    namespace axis = parallel::axis;
    if (config_.ranks_of_model() > 1)
      control_of_share_ =
          control_.split(parallel::coloring([layout](int rank) {
                           return layout.template position<axis::replicate, axis::shard>(rank);
                         }),
                         "part");
  }

  /// Uses one communicator for control and exchanges.
  run_mesh(execution_config const& execution, training_layout const& layout,
           any_communicator& world,
           Device const& device) requires std::same_as<Comm, any_communicator>
      : run_mesh(execution, layout, world, world, device) {}

  [[nodiscard]] train::process_groups<Comm>& ranks() { return ranks_; }
  [[nodiscard]] training_layout const& layout() const { return ranks_.shape(); }

  /// The communicator of all ranks for the host's memory, and the stream of its exchanges.
  [[nodiscard]] any_communicator& control() { return control_; }
  [[nodiscard]] parallel::host::stream& control_stream() { return control_stream_; }

  /// The ranks of `control` along the tensor and pipeline axes, which together hold one model. The
  /// first call makes the group, so it is collective over all ranks.
  [[nodiscard]] any_communicator& control_of_model() {
    namespace axis = parallel::axis;
    if (!control_of_model_)
      control_of_model_ = control_.split(
          parallel::coloring([shape = layout()](int rank) {
            return shape.template position<axis::replicate, axis::shard, axis::context>(rank);
          }),
          "model");
    return *control_of_model_;
  }

  /// The groups of the ranks that share a model with this rank; valid while the mesh lives.
  [[nodiscard]] basic_model_groups<Comm> groups_of_model() {
    basic_model_groups<Comm> out;
    auto const set_group = [&](auto& group, auto& ranks) {
      if (ranks.size() == 1) return;
      auto& outgoing = stream();
      group = {ranks, outgoing, stream()};
    };
    set_group(out.tensor.group, ranks_.tensor);
    set_group(out.context.group, ranks_.context);
    if (auto* const experts = ranks_.experts()) set_group(out.experts, *experts);
    out.expert_buffer = config_.expert_buffer;
    out.tensor.sequence = config_.sequence_parallel;
    out.context.method = config_.context_method;
    return out;
  }

  /// The index of this rank's share of a batch, and the number of shares.
  [[nodiscard]] int data_rank() { return ranks_.data_rank(); }
  [[nodiscard]] int data_ranks() const { return ranks_.data_ranks(); }

  /// Calls read() on the first of the ranks that train on the same rows, and returns its result on
  /// all of them. Collective over these ranks.
  template <class Read>
  [[nodiscard]] std::optional<sequences> read_once(Read&& read) {
    if (!control_of_share_) return read();
    return read_on_first(*control_of_share_, control_stream_, read);
  }

  /// The part of a batch of whole sequences that this rank of the context axis holds.
  [[nodiscard]] sequences local_rows(sequences batch) {
    if (ranks_.context.size() == 1) return batch;
    return batch.divided({ranks_.context.rank(), ranks_.context.size(), batch.length()});
  }

  /// `batch` with as many sequences as the ranks that divide experts have at most, `count` of
  /// `length`, those without labels that it lacks: they exchange equal blocks of rows.
  [[nodiscard]] sequences equal_rows(sequences batch, index count, index length) {
    return config_.expert == 1 ? batch : batch.filled_up(count, length);
  }

 private:
  stream_type& stream() { return streams_.emplace_back(parallel::comm_options<Comm>(device_)); }

  parallelism_config config_;
  any_communicator& control_;
  parallel::host::stream control_stream_;
  std::optional<any_communicator> control_of_model_;
  std::optional<any_communicator> control_of_share_;  // none: no other rank trains on these rows
  train::process_groups<Comm> ranks_;
  Device const& device_;
  std::deque<stream_type> streams_;
};

/// The groups of a model for planning on the meta device, on the first rank of each group.
[[nodiscard]] model_groups planned_groups(parallelism_config const& parallelism);

}  // namespace mpt
