// run_mesh: the ranks of a run as one of them meets them: its groups along the mesh's axes, the
// streams of the exchanges inside a pass, and its part of what is read.
//
// Ranks are connected twice, or by one communicator for both: for control, where what they say to
// each other lies in the host's memory (agreement, checkpoints, texts), and for exchanges of the
// device's memory, which are the groups'.
#pragma once

#include <concepts>
#include <deque>
#include <optional>
#include <utility>

#include <mpt/model/groups.hpp>
#include <mpt/train/layout.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/train/shared_reading.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {

/// `Device`: where what is exchanged lies; `Comm`: by what.
template <class Device, class Comm = any_communicator>
class run_mesh {
 public:
  using stream_type = parallel::comm_stream<Device, Comm>;

  /// Collective over `control` and `exchanges`, which connect the same ranks in the same order.
  /// Throws what run_layout refuses. `control` and `device` must outlive it.
  run_mesh(train_config const& config, any_communicator& control, Comm& exchanges,
           Device const& device)
      : config_(config.parallelism),
        control_(control),
        ranks_(exchanges.split(parallel::coloring::single_color()),
               run_layout(config, control.size()), level_of(config)),
        device_(device) {
    namespace axis = parallel::axis;
    if (config_.ranks_of_model() > 1)
      control_of_part_ =
          control_.split(parallel::coloring([shape = layout()](int rank) {
                           return shape.template position<axis::replicate, axis::shard>(rank);
                         }),
                         "part");
  }

  /// Over one communicator for both.
  run_mesh(train_config const& config, any_communicator& world,
           Device const& device) requires std::same_as<Comm, any_communicator>
      : run_mesh(config, world, world, device) {}

  [[nodiscard]] train::process_groups<Comm>& ranks() { return ranks_; }
  [[nodiscard]] training_layout const& layout() const { return ranks_.shape(); }

  /// All ranks, for what lies in the host's memory, and the stream of what they say there.
  [[nodiscard]] any_communicator& control() { return control_; }
  [[nodiscard]] parallel::host::stream& control_stream() { return control_stream_; }

  /// Those of `control` along the tensor and pipeline axes: together they have one model. The first
  /// call makes the group, so it is collective over all ranks.
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

  /// Groups of the ranks that share a model with this one; valid while this lives.
  [[nodiscard]] basic_model_groups<Comm> groups_of_model() {
    basic_model_groups<Comm> out;
    auto const with_streams = [&](auto& group, auto& ranks) {
      if (ranks.size() == 1) return;
      auto& out_of_here = stream();
      group = {ranks, out_of_here, stream()};
    };
    with_streams(out.tensor.group, ranks_.tensor);
    with_streams(out.context.group, ranks_.context);
    out.tensor.sequence = config_.sequence_parallel;
    out.context.method = config_.context_method;
    return out;
  }

  /// Which of the parts of a batch is this rank's, and of how many.
  [[nodiscard]] int data_rank() { return ranks_.data_rank(); }
  [[nodiscard]] int data_ranks() const { return ranks_.data_ranks(); }

  /// What read() gives on the first of the ranks that have one part of the data, on all of them.
  /// Collective over these.
  template <class Read>
  [[nodiscard]] std::optional<sequences> read_once(Read&& read) {
    if (!control_of_part_) return read();
    return read_on_first(*control_of_part_, control_stream_, read);
  }

  /// The rows here of whole sequences.
  [[nodiscard]] sequences local_rows(sequences whole) {
    if (ranks_.context.size() == 1) return whole;
    return whole.divided({ranks_.context.rank(), ranks_.context.size(), whole.length()});
  }

 private:
  stream_type& stream() { return streams_.emplace_back(parallel::comm_options<Comm>(device_)); }

  parallelism_config config_;
  any_communicator& control_;
  parallel::host::stream control_stream_;
  std::optional<any_communicator> control_of_model_;
  std::optional<any_communicator> control_of_part_;  // none: this rank is alone
  train::process_groups<Comm> ranks_;
  Device const& device_;
  std::deque<stream_type> streams_;
};

/// A model's groups for planning on the meta device, on the first rank of each.
[[nodiscard]] inline model_groups planned_groups(train_config const& config) {
  auto const& p = config.parallelism;
  model_groups out;
  out.tensor = {decltype(out.tensor.group)::planned(0, p.tensor), p.sequence_parallel};
  out.context = {decltype(out.context.group)::planned(0, p.context), p.context_method};
  return out;
}

}  // namespace mpt
