// model_saves: writes the model of a run between its batches: checkpoints, from which the run can
// resume, and folders of Hugging Face.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/train/batch_guard.hpp>
#include <mpt/train/checkpoint/best_evaluation.hpp>
#include <mpt/train/checkpoint/run_saves.hpp>
#include <mpt/train/run_context.hpp>
#include <mpt/train/run_parts.hpp>

namespace mpt {

template <class Session>
class model_saves {
 public:
  /// `run` and `session` must outlive it.
  model_saves(run_context& run, Session& session, run_parts const& parts)
      : run_(run), session_(session), adapter_base_(parts.adapter_base) {
    if (auto const& settings = run.config.callbacks.hf_checkpointer)
      exports_.emplace(*settings, parts.exports);
  }

  [[nodiscard]] best_evaluation& best() { return best_; }

  /// Opens the folder of checkpoints, if the run has one. Returns notes for the user. Collective.
  std::vector<std::string> open(run_hooks const& hooks, bool in_background) {
    if (run_.config.checkpoint.save_folder.empty()) return {};
    auto const origin = run_.batch > 0 ? run_.summary.begun_from : std::string();  // else weights
    saves_.emplace(session_, run_.comm, run_.host, run_.config.checkpoint, hooks, origin,
                   in_background);
    return saves_->notes();
  }

  /// Collective, where the run resumes from a checkpoint: writes the export that is missing where
  /// it `is_over`.
  void resume(bool is_over) {
    if (exports_ && run_.batch > 0)
      run_.control.say(exports_->resume(session_.stepper(), run_.comm, run_.host, run_.batch,
                                        run_.clock, is_over));
  }

  /// Collective, after each batch: goes on with the save under way.
  void advance() {
    if (saves_) saves_->advance();
  }

  /// Collective, after each batch: saves what is due; at the end of the run, completes the save.
  void save_if_due(batch_guard const& guard, std::int64_t tokens) {
    bool const is_stopped = run_.control.is_stopped();
    if (saves_) {
      bool const shared =
          is_due(run_.config.checkpoint.save_interval, run_.batch, run_.clock) || is_stopped;
      if (shared || saves_->local_due(run_.batch, run_.clock)) save(guard, tokens, shared);
      if (run_.batch == total_batches(run_.clock) || is_stopped) saves_->complete();
    }
    if (exports_)
      run_.control.say(exports_->save_if_due(session_.stepper(), run_.comm, run_.host, run_.batch,
                                             run_.clock, is_stopped));
  }

  void complete() {
    if (saves_) saves_->complete();
  }
  /// Returns call(); if it throws, which it does on every rank, completes the current save first.
  decltype(auto) completing(auto const& call) {
    try {
      return call();
    } catch (parallel::error const&) {
      complete();
      throw;
    }
  }

  /// Brings the saves and the last checkpoint in the run's summary up to date.
  void summarize() {
    if (saves_) saves_->summarize(run_.summary);
  }
  [[nodiscard]] double held_up_seconds() const { return saves_ ? saves_->held_up_seconds() : 0.0; }

 private:
  void save(batch_guard const& guard, std::int64_t tokens, bool shared) {
    bool const best = shared && best_.claim_best(run_.batch);
    run_state state{.batches = run_.batch,
                    .epoch = run_.batch / run_.clock.batches_per_epoch,
                    .batch_in_epoch = run_.batch % run_.clock.batches_per_epoch,
                    .data = run_.data->set(),
                    .tokens = tokens,
                    .callbacks = run_.callbacks.state(),
                    .best_loss = best_.loss(),
                    .is_best = best};
    guard.save(state);
    saves_->save(saved_state(run_.config, state, adapter_base_), shared);
  }

  run_context& run_;
  Session& session_;
  hf::adapted_model adapter_base_;
  std::optional<run_saves<Session>> saves_;
  std::optional<hf_checkpointer> exports_;
  best_evaluation best_;  // by the loss on the first set
};

}  // namespace mpt
