// trainer: the pretraining loop of one rank. Configuration, data and batch number determine a run,
// so a resumed run continues with the same bits: its only state beside parameters and optimizer is
// the number of finished batches.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/callbacks/run_callbacks.hpp>
#include <mpt/config/train.hpp>
#include <mpt/model/device_sequences.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/batch_guard.hpp>
#include <mpt/train/checked_batches.hpp>
#include <mpt/train/checkpoint/best_evaluation.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/checkpoint/run_saves.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/evaluation/evaluate_set.hpp>
#include <mpt/train/evaluation/run_decoder.hpp>
#include <mpt/train/report/profile.hpp>
#include <mpt/train/report/reporter.hpp>
#include <mpt/train/report/run_pace.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/report/slow_rank.hpp>
#include <mpt/train/run_phases.hpp>
#include <mpt/train/run_training.hpp>
#include <mpt/train/setup/decoder_rooms.hpp>
#include <mpt/train/setup/kernel_autotune.hpp>
#include <mpt/train/setup/matmul_rate.hpp>
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

/// Trains elements T over a Comm on a Device, whose operations must be declared before.
template <class T, class Device, class Comm>
class trainer {
 public:
  /// Collective: all ranks make one at the same time. See run_training.
  trainer(train_config const& config, any_communicator& control, Comm& exchanges, Device& device,
          run_plan plan, run_parts const& parts, run_hooks hooks)
      : config_(config),
        comm_(control),
        device_(device),
        plan_(std::move(plan)),
        parts_(parts),
        hooks_(std::move(hooks)),
        phases_(config.run.deadlines, hooks_.deadline),
        mesh_(config, control, exchanges, device),
        host_(mesh_.control_stream()),
        profiles_(config.run.profile && control.rank() == 0),
        net_(config.model, mesh_.groups_of_model(), plan_.recompute),
        session_(net_, device, mesh_.ranks(), groups_of(config.optimizer, config.callbacks, net_),
                 stepper_options_of(config.optimizer, config.execution, config.run, plan_),
                 with_trace(device.compute_options(), profiles_ ? &profiler_.compute() : nullptr),
                 with_trace(parallel::comm_options<Comm>(device),
                            profiles_ ? &profiler_.exchanges() : nullptr)),
        batches_(parts.data->batches(config, mesh_.data_rank(), mesh_.data_ranks())),
        batch_data_(device),
        clock_(clock_of(config.data, config.run, batches_->batches_per_epoch())),
        callbacks_(make_callbacks(config.callbacks, config.data, clock_)),
        control_([this](std::string const& text) { say(text); }),
        evaluation_sets_(parts.data->evaluation_sets(config, mesh_.data_ranks())),
        guard_(config.run) {
    session_.reserve(plan_.for_pipeline_rank(pipeline_rank()).activations);
    session_.stepper().reserve_scratch(session_.compute(),
                                       plan_.for_pipeline_rank(pipeline_rank()).scratch);
    check_schedule(config.optimizer.scheduler, clock_);
    if (config.run.corruption_check.interval.count > 0)
      checks_.emplace(config, *parts.data, mesh_, device, session_.stepper(),
                      plan_.split.microbatch, session_.compute());
    if (config.callbacks.hf_checkpointer) exports_.emplace(config, parts.exports);
    if (config.callbacks.generate)
      samples_.emplace(config, mesh_.data_rank() == 0 ? parts.prompts : nullptr);
  }

  /// Trains to max_duration, from the beginning or from where a checkpoint left off.
  run_summary run() {
    peak_.emplace(watch_peak<T>(device_, session_.compute(), config_.callbacks.gpu_flops_available,
                                comm_, host_));
    phases_.enter(&run_deadlines::first_step);
    bool const is_initialised = agree_on_kernels();
    phases_.enter(&run_deadlines::load);
    auto notes = start(is_initialised);
    auto const last = total_batches(clock_);
    for (auto& note : unfinished_parts_in_epochs(config_.optimizer.scheduler, clock_))
      notes.push_back(std::move(note));
    if (!config_.checkpoint.save_folder.empty() && batch_ < last) {
      auto const origin = batch_ > 0 ? summary_.begun_from : std::string();  // else weights alone
      saves_.emplace(session_.stepper(), comm_, host_, config_.checkpoint, hooks_, origin,
                     plan_.saves_in_background);
      for (auto const& note : saves_->notes()) notes.push_back(note);
    }
    if (comm_.rank() == 0) report_.emplace(config_, comm_.size(), batch_ + 1, parts_.open_trackers);
    for (auto const& note : notes) say(note);
    if (bool const is_over = batch_ >= last || control_.is_stopped(); exports_ && batch_ > 0)
      say(exports_->resume(session_.stepper(), comm_, host_, batch_, clock_, is_over));
    phases_.enter(&run_deadlines::first_step);
    if (config_.evaluation.eval_first && batch_ == 0) pace_.evaluate([this] { evaluate(); });
    pace_.begin(*batches_, batch_, config_.data.train_loader.finetuning.has_value(), clock_);
    train::train_batches(*this, batch_, last);
    pace_.end();
    profile(true);
    last_checkpoint();
    peak_->finish(pace_.mean_padded_tokens_per_second() * utilisation_.flops_per_token, comm_,
                  host_);
    summary_.device_memory_by_rank = values_by_rank(peak_device_bytes(device_), comm_, host_);
    summary_.device_memory_bytes = std::ranges::max(summary_.device_memory_by_rank);
    if (report_) report_->memory(summary_.device_memory_by_rank, batch_);
    summary_.batches = batch_;
    pace_.summarize(summary_, utilisation_, *peak_, config_.data.global_train_batch_size);
    if (report_ && summary_.stop_asked) report_->hurry();
    if (report_) report_->finish();  // last, as no rank waits for rank 0 while a tracker is slow
    return summary_;
  }

  using step_result = train::step_result<double>;

  /// What follows are the calls of train::train_batches, for run() alone.
  step_result train_batch(index) {
    auto const result = slow_.time_batch([this] { return train_next_batch(); });
    auto const ranks = slow_.look(comm_, host_, peak_device_bytes(device_));
    say(ranks.note);
    if (report_) report_->memory(ranks.device_bytes, batch_);
    if (pace_.batches() == 1) say(plain_attention_note(session_.compute()));
    pause_begin_ = std::chrono::steady_clock::now();
    phases_.enter(&run_deadlines::save);
    if (saves_) saves_->advance();
    phases_.enter(&run_deadlines::step);
    return result;
  }
  void after_update(index, step_result const& result) { report_batch(result); }
  void after_refusal(index, step_result const& result) { discard_batch(result); }
  void stop(index batches) {
    summary_.stop_asked = true;
    control_.stop(concat("batch ", batches, ": asked to stop"));
  }
  [[nodiscard]] bool is_stopped() const { return control_.is_stopped(); }
  void evaluate_if_due(index batches) {
    if (is_due(config_.evaluation.eval_interval, batches, clock_))
      pace_.evaluate([this] { evaluate(); });
  }
  void save_if_due(index batches) {
    phases_.enter(&run_deadlines::save);
    if (saves_) save();
    if (exports_)
      say(exports_->save_if_due(session_.stepper(), comm_, host_, batches, clock_,
                                control_.is_stopped()));
    phases_.enter(&run_deadlines::step);
    profile();
    peak_->update(pace_.batches(), pace_.training_seconds(), flops_per_second(), comm_, host_);
    pace_.skip_since(pause_begin_);
  }

 private:
  [[nodiscard]] int pipeline_rank() { return mesh_.ranks().pipeline.rank(); }
  [[nodiscard]] auto stages() {
    return stages_of(config_.model, config_.execution.parallelism, pipeline_rank());
  }

  [[nodiscard]] double flops_per_second() const {  // rate of the last batches
    return pace_.window().padded_tokens_per_second() * utilisation_.flops_per_token;
  }

  /// Starts and ends the profile between batches; `is_last`: after the last batch.
  void profile(bool is_last = false) {
    if (!profiles_) return;
    auto const batches = pace_.batches();
    auto const file = std::filesystem::path(config_.checkpoint.save_folder) / "profile.json";
    auto const counts = [&] {
      return operations_of_batch(net_, config_.data, config_.execution.parallelism, plan_.split,
                                 stages());
    };
    say(is_last ? profiler_.finish(batches, file, counts)
                : profiler_.advance(batches, file, counts));
  }

  void say(std::string const& text) {
    if (report_ && !text.empty()) report_->note(text, batch_);
  }

  /// Tunes kernels by a step without lasting effect. Returns whether it initialised parameters.
  [[nodiscard]] bool agree_on_kernels() {
    if constexpr (has_tuned_kernels<typename Device::stream_type>) {
      std::filesystem::path file = config_.checkpoint.save_folder;
      if (!file.empty()) file /= "kernels.txt";
      std::vector streams{&session_.compute()};
      session_.stepper().for_each_compute_stream([&](auto& stream) { streams.push_back(&stream); });
      return mpt::agree_on_kernels(streams, comm_, host_, file, [&] {
        session_.stepper().initialise(config_.run.seed);
        static_cast<void>(run_step(0, 0.0));
        session_.stepper().clear_states(session_.compute());
      });
    } else {
      return false;
    }
  }

  /// Sets initial values, or loads the checkpoint that rank 0 chooses. Returns notes for the user.
  std::vector<std::string> start(bool is_initialised) {
    std::vector notes{promote_local_checkpoint(comm_, host_, config_.checkpoint, hooks_)};
    found_checkpoint found;
    if (comm_.rank() == 0)
      found = checkpoint_to_load(config_.checkpoint).value_or(found_checkpoint{});
    found = agree_on_sound(comm_, host_, std::move(found));
    if (found.folder.empty()) {
      if (!is_initialised) session_.stepper().initialise(config_.run.seed);
      return notes;
    }
    auto const state = load_run(session_.stepper(), session_.exchanges(), config_, found,
                                batches_->set(), parts_.open_weights);
    summary_.begun_from = found.folder.string();
    if (!found.weights_only) {
      batch_ = state.batches;
      pace_.resume_at(state.tokens);
      best_.restore(state.best_loss);
      guard_.restore(state);
      callbacks_.restore(control_, state.callbacks);
      summary_.checkpoint = summary_.begun_from;
    }
    add_notes(notes, found, config_, batch_, control_.is_stopped());
    return notes;
  }

  using session_type = train::session<model<T, Comm>, Device, Comm, run_optimizer>;
  using stepper_type = typename session_type::stepper_type;
  using decoder_type = run_decoder<T, Device, Comm, stepper_type>;

  step_result train_next_batch() {
    control_.clear();
    callbacks_.batch_begin(control_, batch_ + 1);
    session_.stepper().measure_tensors(control_.is_measuring());
    session_.stepper().ask_to_stop(hooks_.stop_asked && hooks_.stop_asked());
    session_.stepper().limit(guard_.limits());
    factor_ = learning_rate_multiplier(config_.optimizer.scheduler, batch_, clock_);
    auto result = run_step(batch_, factor_, checks_ && checks_->due(batch_ + 1, clock_));
    pace_.record_batch(*batches_, result.sums.tokens, batch_ % clock_.batches_per_epoch == 0);
    ++batch_;
    return result;
  }

  /// One update with the data of a batch; `is_checked`: ranks check each other's work.
  step_result run_step(std::int64_t batch, double factor, bool is_checked = false) {
    batch_data_.assign(mesh_.local_rows(shared_batch(*batches_, batch, mesh_)));
    auto const [parts, first] = batch_data_.microbatches(
        plan_.split.microbatch, batches_->share().begin,
        session_.stepper().least_microbatches(static_cast<std::size_t>(plan_.split.accumulation)));
    auto const position = guard_.position_after(batch);
    if (is_checked)
      return checks_->step(session_.compute(), session_.exchanges(), session_.memory(), parts,
                           first, position, factor, control_);
    return session_.stepper().step(session_.compute(), session_.exchanges(), session_.memory(),
                                   std::span<microbatch const>(parts),
                                   std::span<index const>(first), position, factor);
  }

  /// Discards the last batch, which updated nothing: skips it or rolls back. Called on every rank.
  void discard_batch(step_result const& result) {
    auto first = batch_;
    auto const r = result_of(result, batch_, clock_);
    if (completing_saves([&] { return guard_.must_roll_back(result.outcome, r); })) {
      phases_.enter(&run_deadlines::save);
      if (saves_) saves_->complete();
      phases_.enter(&run_deadlines::load);
      auto const target =
          agree_on_sound(comm_, host_, guard_.rollback_checkpoint(last_checkpoint(), batch_));
      auto const state = load_run(session_.stepper(), session_.exchanges(), config_, target,
                                  batches_->set(), parts_.open_weights);
      guard_.roll_back(state);
      first = state.batches + 1;
      phases_.enter(&run_deadlines::step);
    }
    say(completing_saves([&] { return guard_.skip(first, batch_); }));
  }

  /// Returns call(); if it throws, which it does on every rank, completes the current save first.
  decltype(auto) completing_saves(auto const& call) {
    try {
      return call();
    } catch (parallel::error const&) {
      if (saves_) saves_->complete();
      throw;
    }
  }

  /// The folder of the last checkpoint that was written or loaded; "" where there is none.
  std::string const& last_checkpoint() {
    if (saves_) saves_->summarize(summary_);
    return summary_.checkpoint;
  }

  /// Reports the batch just trained to callbacks and to the user.
  void report_batch(step_result const& result) {
    auto const r = result_of(result, batch_, clock_);
    summary_.loss = r.loss;
    completing_saves([&] { callbacks_.batch_end(control_, r); });
    guard_.record_update(r);
    if (samples_ && samples_->is_due(batch_, clock_)) {
      decoder_type text_decoder(decoder_resources(), samples_->room());
      samples_->write(text_decoder.texts(), control_, batch_);
      text_decoder.finish();
    }
    if (!report_) return;
    say(peak_->observe(flops_per_second()));
    utilisation_.peak_flops = peak_->flops();
    batch_record record{.batch = batch_,
                        .total_batches = total_batches(clock_),
                        .epoch = (batch_ - 1) / clock_.batches_per_epoch,
                        .tokens = pace_.tokens_of_run(),
                        .epoch_tokens = pace_.tokens_of_epoch(),
                        .loss = r.loss,
                        .accuracy = r.accuracy,
                        .gradient_norm = r.gradient_norm,
                        .learning_rates = learning_rates(config_.optimizer, factor_),
                        .peak = utilisation_,
                        .microbatch = plan_.split.microbatch,
                        .saving_seconds = saves_ ? saves_->held_up_seconds() : 0.0,
                        .memory_bytes = parallel::host_reaches<Device> ? peak_memory_bytes()
                                                                       : peak_device_bytes(device_),
                        .device = readings_of(device_)};
    record.add_pace(pace_);
    report_->batch(record, clock_, control_);
  }

  /// Evaluates the model on the evaluation sets, then on the tasks.
  void evaluate() {
    for (std::size_t i = 0; i < evaluation_sets_.size(); ++i) {
      auto const totals = evaluate_set(*evaluation_sets_[i], device_, mesh_, session_.stepper(),
                                       session_.compute(), session_.exchanges(), session_.memory());
      auto const r = report_of(totals, config_.data.eval_loaders[i].label, batch_, clock_);
      if (i == 0) best_.record_evaluation(batch_, r.loss);
      if (i == 0) summary_.evaluation = r;
      if (report_) report_->evaluation(r.label, batch_, r.loss, r.accuracy, totals.tokens);
      callbacks_.evaluation_end(control_, r);
    }
    if (config_.evaluation.icl.tasks.empty()) return;
    decoder_type text_decoder(decoder_resources(), room_of(config_.evaluation.icl.tasks));
    summary_.tasks = parts_.tasks->evaluate(text_decoder.texts(), text_decoder.sharing(), batch_);
    if (report_) report_->tasks(summary_.tasks, batch_);
  }

  [[nodiscard]] typename decoder_type::run_resources decoder_resources() {
    return {net_,
            device_,
            session_.stepper(),
            mesh_,
            session_.compute(),
            session_.memory(),
            stages().ranges()};
  }

  /// Saves after this batch if a save is due; at the end of the run, completes the save.
  void save() {
    bool const shared =
        is_due(config_.checkpoint.save_interval, batch_, clock_) || control_.is_stopped();
    if (shared || saves_->local_due(batch_, clock_)) {
      bool const best = shared && best_.claim_best(batch_);
      run_state state{.batches = batch_,
                      .epoch = batch_ / clock_.batches_per_epoch,
                      .batch_in_epoch = batch_ % clock_.batches_per_epoch,
                      .data = batches_->set(),
                      .tokens = pace_.tokens_of_run(),
                      .callbacks = callbacks_.state(),
                      .best_loss = best_.loss(),
                      .is_best = best};
      guard_.save(state);
      saves_->save(saved_state(config_, state, parts_.adapter_base), shared);
    }
    if (batch_ == total_batches(clock_) || control_.is_stopped()) saves_->complete();
  }

  train_config const& config_;
  any_communicator& comm_;
  Device& device_;
  run_plan plan_;
  run_parts parts_;
  run_hooks hooks_;
  run_phases phases_;
  run_mesh<Device, Comm> mesh_;
  host::stream& host_;  // stream of the exchanges over comm_
  run_profiler profiler_;
  bool profiles_;
  model<T, Comm> net_;
  session_type session_;
  std::unique_ptr<run_batches> batches_;
  device_sequences<Device> batch_data_;
  std::optional<checked_batches<Device, Comm, stepper_type>> checks_;
  training_clock clock_;
  run_callbacks callbacks_;
  run_control control_;
  std::vector<std::unique_ptr<evaluation_set>> evaluation_sets_;
  std::optional<reporter> report_;
  std::optional<run_saves<stepper_type>> saves_;
  std::optional<hf_checkpointer> exports_;
  std::optional<generate_callback> samples_;
  batch_guard guard_;
  slow_rank_watch slow_{hooks_.exchange_seconds, pipeline_rank()};
  run_pace pace_{config_.callbacks};
  std::optional<watched_peak> peak_;
  utilisation utilisation_{utilisation_of(config_.model, config_.data, plan_, 0)};
  best_evaluation best_;                               // by the loss on the first set
  std::int64_t batch_ = 0;                             // finished batches
  std::chrono::steady_clock::time_point pause_begin_;  // the end of the batch's training
  double factor_ = 1;                                  // of the learning rates, in the last batch
  run_summary summary_;
};

template <class T, class Device, parallel::communicator Comm>
run_summary run_training(train_config const& config, any_communicator& control, Comm& exchanges,
                         Device& device, run_plan plan, run_parts const& parts, run_hooks hooks) {
  return trainer<T, Device, Comm>(config, control, exchanges, device, std::move(plan),
                                  checked_parts(config, parts), std::move(hooks))
      .run();
}

}  // namespace mpt
