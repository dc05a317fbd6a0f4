// train_batches: the loop of a training run: the order in which batches are trained, evaluations
// made and checkpoints saved.
//
// What these are is the run's: a program with much of its own, such as apps/pretrain, writes them
// all; training_run.hpp has a run for a session, a source of batches and a folder.
#pragma once

#include <concepts>

#include <parallel/core/tensor.hpp>

namespace parallel::train {

/// A run that a loop drives. `batches`: the number of finished batches.
///   train_batch(batches)            trains the next batch; its result says updated() and
///   stop_asked after_update(batches, result)   parameters have changed: report, callbacks
///   after_refusal(batches, result)  they have not, since the batch was refused (step_limits)
///   stop(batches)                   a rank asked to stop: the run ends after this batch
///   is_stopped()                    whether the run ends before its last batch
///   evaluate_if_due(batches)
///   save_if_due(batches)
template <class Run>
concept batch_run = requires(Run& run, index batches) {
  { run.train_batch(batches).updated() } -> std::convertible_to<bool>;
  { run.train_batch(batches).stop_asked } -> std::convertible_to<bool>;
  { run.is_stopped() } -> std::convertible_to<bool>;
  run.after_update(batches, run.train_batch(batches));
  run.after_refusal(batches, run.train_batch(batches));
  run.stop(batches);
  run.evaluate_if_due(batches);
  run.save_if_due(batches);
};

/// Trains the batches that follow the first `finished`, up to `last`. All ranks call it alike.
/// Returns the number of finished batches.
template <batch_run Run>
index train_batches(Run& run, index finished, index last) {
  while (finished < last && !run.is_stopped()) {
    auto const result = run.train_batch(finished);
    ++finished;
    if (result.updated())
      run.after_update(finished, result);
    else
      run.after_refusal(finished, result);
    if (result.stop_asked && finished < last)
      run.stop(finished);
    else
      run.evaluate_if_due(finished);
    run.save_if_due(finished);
  }
  return finished;
}

}  // namespace parallel::train
