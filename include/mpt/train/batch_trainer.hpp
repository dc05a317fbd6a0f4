// batch_trainer: trains the batches of a run with the guard of their numbers and, at an interval,
// with the ranks' check of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <mpt/model/device_sequences.hpp>
#include <mpt/train/batch_guard.hpp>
#include <mpt/train/checked_batches.hpp>
#include <mpt/train/run_context.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/train/step/step_request.hpp>

namespace mpt {

template <class Device, class Comm, class Session>
class batch_trainer {
 public:
  using result_type = train::step_result<double>;

  /// All arguments must outlive it.
  batch_trainer(run_context& run, run_mesh<Device, Comm>& mesh, Session& session,
                batch_split const& split)
      : run_(run),
        mesh_(mesh),
        session_(session),
        split_(split),
        rows_(session.device()),
        guard_(run.config.run) {}

  /// Ranks check each other's work at the interval of the configuration, if it has one. `data` must
  /// outlive the trainer. Collective.
  void check_ranks(run_data const& data) {
    auto const& config = run_.config;
    if (config.run.corruption_check.interval.count > 0)
      checks_.emplace(
          config.run.corruption_check,
          [&config, &data, ranks = mesh_.data_ranks()](int data_rank) {
            return data.batches(config.model, config.data, config.execution, data_rank, ranks);
          },
          mesh_, session_, split_.microbatch);
  }

  [[nodiscard]] batch_guard& guard() { return guard_; }

  /// Trains the next batch. `stop_asked`: this rank asks the run to end after it.
  result_type train_next(bool stop_asked) {
    run_.control.clear();
    run_.callbacks.batch_begin(run_.control, run_.batch + 1);
    session_.stepper().measure_tensors(run_.control.is_measuring());
    session_.stepper().ask_to_stop(stop_asked);
    session_.stepper().limit(guard_.limits());
    auto const factor =
        learning_rate_multiplier(run_.config.optimizer.scheduler, run_.batch, run_.clock);
    return step(run_.batch, factor, checks_ && checks_->due(run_.batch + 1, run_.clock));
  }

  /// One update with the data of a batch; `is_checked`: ranks check each other's work.
  result_type step(std::int64_t batch, double learning_rate_factor, bool is_checked = false) {
    rows_.assign(mesh_.local_rows(shared_batch(*run_.data, batch, mesh_)));
    auto const [microbatches, first] = rows_.microbatches(
        split_.microbatch, run_.data->share().begin,
        session_.least_microbatches(static_cast<std::size_t>(split_.accumulation)));
    train::step_request<microbatch> const request{microbatches, first, guard_.position_after(batch),
                                                  learning_rate_factor};
    return is_checked ? checks_->step(request, run_.control) : session_.step(request);
  }

 private:
  run_context& run_;
  run_mesh<Device, Comm>& mesh_;
  Session& session_;
  batch_split const& split_;
  device_sequences<Device> rows_;
  std::optional<checked_batches<Device, Comm, Session>> checks_;
  batch_guard guard_;
};

}  // namespace mpt
