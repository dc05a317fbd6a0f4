// run_mesh: the ranks of a run as one of them meets them: its groups along the mesh's axes, the
// streams of the exchanges inside a pass, and its part of what is read.
#pragma once

#include <deque>
#include <utility>

#include <mpt/model/groups.hpp>
#include <mpt/train/layout.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {

/// `Device`: where what is exchanged lies.
template <class Device>
class run_mesh {
 public:
  using stream_type = parallel::comm_stream<Device, any_communicator>;

  /// Collective over `world`. Throws what run_layout refuses. `device` must outlive it.
  run_mesh(train_config const& config, any_communicator& world, Device const& device)
      : config_(config.parallelism),
        ranks_(world.split(0), run_layout(config, world.size()), level_of(config)),
        device_(device) {}

  [[nodiscard]] train::process_groups<any_communicator>& ranks() { return ranks_; }
  [[nodiscard]] training_layout const& layout() const { return ranks_.shape(); }

  /// Groups of the ranks that share a model with this one; valid while this lives.
  [[nodiscard]] model_groups of_model() {
    model_groups out;
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

  /// The rows here of whole sequences.
  [[nodiscard]] sequences rows_of(sequences whole) {
    if (ranks_.context.size() == 1) return whole;
    return whole.divided({ranks_.context.rank(), ranks_.context.size(), whole.length()});
  }

 private:
  stream_type& stream() {
    return streams_.emplace_back(parallel::comm_options<any_communicator>(device_));
  }

  parallelism_config config_;
  train::process_groups<any_communicator> ranks_;
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
