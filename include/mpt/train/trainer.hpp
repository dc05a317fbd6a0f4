// trainer: the pretraining loop of one rank. Configuration, data and batch number determine a run,
// so a resumed run continues with the same bits: its only state besides parameters and optimizer is
// the number of finished batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/model.hpp>
#include <mpt/train/batch_trainer.hpp>
#include <mpt/train/checkpoint/model_saves.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/evaluation/model_evaluations.hpp>
#include <mpt/train/report/profile.hpp>
#include <mpt/train/report/run_reports.hpp>
#include <mpt/train/run_phases.hpp>
#include <mpt/train/run_training.hpp>
#include <mpt/train/setup/kernel_autotune.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/plain_attention_note.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <mpt/train/setup/run_stages.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/session.hpp>
#include <parallel/train/train_batches.hpp>

namespace mpt {

/// Trains elements T over a Comm on a Device, whose operations must be declared before. It drives
/// train::train_batches: each part of the run is told of the loop's events and has its own state.
template <class T, class Device, class Comm>
class trainer {
 public:
  /// Collective: all ranks make one at the same time. See run_training.
  trainer(train_config const& config, any_communicator& control, Comm& exchanges, Device& device,
          run_plan plan, run_parts const& parts, run_hooks hooks)
      : plan_(std::move(plan)),
        parts_(parts),
        hooks_(std::move(hooks)),
        phases_(config.run.deadlines, hooks_.deadline),
        mesh_(config.execution, plan_.layout, control, exchanges, device),
        net_(config.model, mesh_.groups_of_model(), plan_.recompute),
        profiler_(profiler_of(config.run, control.rank())),
        watch_(profiler_ && hooks_.expected_step ? std::optional<step_watch>(*hooks_.expected_step)
                                                 : std::nullopt),
        session_(net_, device, mesh_.ranks(), groups_of(config.optimizer, net_),
                 stepper_options_of(config.optimizer, config.execution, config.run, plan_),
                 with_trace(device.compute_options(), profiler_ ? &profiler_->compute() : nullptr),
                 with_trace(parallel::comm_options<Comm>(device),
                            profiler_ ? &profiler_->exchanges() : nullptr)),
        run_(config, control, mesh_.control_stream(),
             parts.data->batches(config.model, config.data, config.execution, mesh_.data_rank(),
                                 mesh_.data_ranks()),
             [this](std::string const& text) { reports_.say(text); }),
        reports_(run_, device, plan_, hooks_.exchange_seconds, pipeline_rank()),
        batches_(run_, mesh_, session_, plan_.split),
        evaluations_(run_, parts_, mesh_, net_, session_),
        saves_(run_, session_, parts_) {
    session_.reserve(plan_.for_pipeline_rank(pipeline_rank()).activations);
    session_.reserve_scratch(plan_.for_pipeline_rank(pipeline_rank()).scratch);
    check_schedule(config.optimizer.scheduler, run_.clock);
    batches_.check_ranks(*parts.data);
  }

  /// Trains to max_duration, from the beginning or from where a checkpoint left off.
  run_summary run() {
    auto const& config = run_.config;
    reports_.template watch_devices<T>(session_.compute());
    phases_.enter(&run_deadlines::first_step);
    bool const is_initialised = agree_on_kernels();
    phases_.enter(&run_deadlines::load);
    auto notes = start(is_initialised);
    auto const last = total_batches(run_.clock);
    auto const add = [&](std::vector<std::string> const& more) {
      notes.insert(notes.end(), more.begin(), more.end());
    };
    add(unfinished_parts_in_epochs(config.optimizer.scheduler, run_.clock));
    if (run_.batch < last) add(saves_.open(hooks_, plan_.saves_in_background));
    reports_.open(parts_.open_trackers);
    for (auto const& note : notes) reports_.say(note);
    saves_.resume(run_.batch >= last || run_.control.is_stopped());
    phases_.enter(&run_deadlines::first_step);
    if (config.evaluation.eval_first && run_.batch == 0) evaluate();
    reports_.pace().begin(*run_.data, run_.batch, config.data.train_loader.finetuning.has_value(),
                          run_.clock);
    train::train_batches(*this, run_.batch, last);
    reports_.pace().end();
    profile(true);
    saves_.summarize();
    run_.summary.skipped_batches = batches_.guard().skipped_batch_count();
    reports_.finish();
    return run_.summary;
  }

  using step_result = train::step_result<double>;

  /// The following functions are called by train::train_batches, for run() alone.
  step_result train_batch(index) {
    auto& pace = reports_.pace();
    auto const result = reports_.time_batch([&] {
      auto out = batches_.train_next(hooks_.stop_asked && hooks_.stop_asked());
      pace.record_batch(*run_.data, out.sums.tokens,
                        run_.batch % run_.clock.batches_per_epoch == 0);
      ++run_.batch;
      return out;
    });
    if (pace.batches() == 1) reports_.say(plain_attention_note(session_.compute()));
    reports_.begin_pause();
    phases_.enter(&run_deadlines::save);
    saves_.advance();
    phases_.enter(&run_deadlines::step);
    return result;
  }
  void after_update(index, step_result const& result) {
    auto const r = result_of(result, run_.batch, run_.clock);
    run_.summary.loss = r.loss;
    saves_.completing([&] { run_.callbacks.batch_end(run_.control, r); });
    batches_.guard().record_update(r);
    evaluations_.write_samples();
    reports_.after_update(r, saves_.held_up_seconds());
  }
  /// Discards the batch, which updated nothing: skips it or rolls back.
  void after_refusal(index batches, step_result const& result) {
    auto first = run_.batch;
    auto& guard = batches_.guard();
    auto const r = result_of(result, batches, run_.clock);
    if (saves_.completing([&] { return guard.must_roll_back(result.outcome, r); })) {
      phases_.enter(&run_deadlines::save);
      saves_.complete();
      saves_.summarize();
      phases_.enter(&run_deadlines::load);
      auto const state = load(agree_on_sound(
          run_.comm, run_.host, guard.rollback_checkpoint(run_.summary.checkpoint, batches)));
      guard.roll_back(state);
      first = state.batches + 1;
      phases_.enter(&run_deadlines::step);
    }
    reports_.say(saves_.completing([&] { return guard.skip(first, run_.batch); }));
  }
  void stop(index batches) {
    run_.summary.stop_asked = true;
    run_.control.stop(concat("batch ", batches, ": asked to stop"));
  }
  [[nodiscard]] bool is_stopped() const { return run_.control.is_stopped(); }
  void evaluate_if_due(index batches) {
    if (is_due(run_.config.evaluation.eval_interval, batches, run_.clock)) evaluate();
  }
  void save_if_due(index) {
    phases_.enter(&run_deadlines::save);
    saves_.save_if_due(batches_.guard(), reports_.pace().tokens_of_run());
    phases_.enter(&run_deadlines::step);
    profile();
    reports_.end_pause();
  }

 private:
  [[nodiscard]] int pipeline_rank() { return mesh_.ranks().pipeline.rank(); }

  void evaluate() {
    reports_.pace().evaluate([this] { evaluations_.evaluate(reports_.report(), saves_.best()); });
  }

  /// Starts and ends what is timed between batches; `is_last`: after the last batch.
  void profile(bool is_last = false) {
    if (!profiler_) return;
    auto const& config = run_.config;
    bool const was_complete = profiler_->timed().batches > 0;
    bool const shows_table = config.run.profile || !config.run.measure.empty();
    std::filesystem::path file;
    if (config.run.profile)
      file = std::filesystem::path(config.checkpoint.save_folder) / "profile.json";
    auto const counts = [&] {
      return operations_of_batch(
          net_, config.data, config.execution.parallelism, plan_.split,
          stages_of(config.model, config.execution.parallelism, pipeline_rank()));
    };
    auto const batches = reports_.pace().batches();
    auto const text = is_last ? profiler_->finish(batches, file, counts)
                              : profiler_->advance(batches, file, counts);
    if (shows_table) reports_.say(text);
    auto const& timed = profiler_->timed();
    if (timed.batches == 0) return;
    if (!was_complete) run_.summary.profile = timed;
    if (!watch_) return;
    if (!was_complete)
      observe(timed.streams.front().tasks, timed.batches);
    else if (batches % step_watch::interval == 1)
      observe(profiler_->stop_again(), 1);
    if (batches % step_watch::interval == 0) profiler_->start_again();
  }
  /// Compares the tasks of `steps` steps with the prediction.
  void observe(std::vector<host::timed_task> const& tasks, std::int64_t steps) {
    if (tasks.empty()) return;
    reports_.say(watch_->observe(tasks, steps));
    reports_.add(watch_->numbers());
    run_.summary.expected_step = watch_->expected();
    run_.summary.measured_step = watch_->mean();
  }

  /// Tunes kernels by a step without lasting effect. Returns whether it initialised parameters.
  [[nodiscard]] bool agree_on_kernels() {
    if constexpr (has_tuned_kernels<typename Device::stream_type>) {
      std::filesystem::path file = run_.config.checkpoint.save_folder;
      if (!file.empty()) file /= "kernels.txt";
      std::vector streams{&session_.compute()};
      session_.stepper().for_each_compute_stream([&](auto& stream) { streams.push_back(&stream); });
      return mpt::agree_on_kernels(streams, run_.comm, run_.host, file, [&] {
        session_.initialise(run_.config.run.seed);
        static_cast<void>(batches_.step(0, 0.0));
        session_.clear_states();
      });
    } else {
      return false;
    }
  }

  /// Sets initial values, or loads the checkpoint that rank 0 chooses. Returns notes for the user.
  std::vector<std::string> start(bool is_initialised) {
    auto const& config = run_.config;
    std::vector notes{promote_local_checkpoint(run_.comm, run_.host, config.checkpoint, hooks_)};
    found_checkpoint found;
    if (run_.comm.rank() == 0)
      found = checkpoint_to_load(config.checkpoint).value_or(found_checkpoint{});
    found = agree_on_sound(run_.comm, run_.host, std::move(found));
    if (found.folder.empty()) {
      if (!is_initialised) session_.initialise(config.run.seed);
      return notes;
    }
    auto const state = load(found);
    auto& summary = run_.summary;
    summary.begun_from = found.folder.string();
    if (!found.weights_only) {
      run_.batch = state.batches;
      reports_.pace().resume_at(state.tokens);
      saves_.best().restore(state.best_loss);
      batches_.guard().restore(state);
      run_.callbacks.restore(run_.control, state.callbacks);
      summary.checkpoint = summary.begun_from;
    }
    add_notes(notes, found, config.model, config.optimizer, config.execution, run_.batch,
              is_stopped());
    return notes;
  }
  [[nodiscard]] run_state load(found_checkpoint const& found) {
    if (found.reader && !found.weights_only)
      require_same_adapted_model(found.reader->state(), parts_.adapter_base, found.folder);
    return load_run(session_, run_.config, found, run_.data->set(), parts_.open_weights);
  }

  using session_type = train::session<model<T, Comm>, Device, Comm, run_optimizer>;

  run_plan plan_;
  run_parts parts_;
  run_hooks hooks_;
  run_phases phases_;
  run_mesh<Device, Comm> mesh_;
  model<T, Comm> net_;
  std::unique_ptr<run_profiler> profiler_;  // null: the run is not profiled
  std::optional<step_watch> watch_;         // none: nothing is predicted
  session_type session_;
  run_context run_;
  run_reports<Device> reports_;
  batch_trainer<Device, Comm, session_type> batches_;
  model_evaluations<T, Device, Comm, session_type> evaluations_;
  model_saves<session_type> saves_;
};

template <class T, class Device, parallel::communicator Comm>
run_summary run_training(train_config const& config, any_communicator& control, Comm& exchanges,
                         Device& device, run_plan plan, run_parts const& parts, run_hooks hooks) {
  return trainer<T, Device, Comm>(
             config, control, exchanges, device, std::move(plan),
             checked_parts(config.evaluation.icl, config.callbacks, config.output.loggers, parts),
             std::move(hooks))
      .run();
}

}  // namespace mpt
