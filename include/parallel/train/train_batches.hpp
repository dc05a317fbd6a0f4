// train_batches: the loop of a training run: the order in which batches are trained, evaluations
// made and checkpoints saved.
//
// The run says what each of these is: apps/pretrain implements all of them, and training_run.hpp
// is a run for a session, a function that returns batches, and a folder of checkpoints.
#pragma once

#include <concepts>

#include <parallel/core/tensor.hpp>

namespace parallel::train {

/// A run that a loop drives. `batches` is the number of finished batches.
/// - train_batch(batches): trains the next batch; its result has updated() and stop_asked
/// - after_update(batches, result): reports a batch that has changed the parameters
/// - after_refusal(batches, result): reacts to one that has not, as step_limits refused it
/// - stop(batches): a rank asked to stop, so the run ends after this batch
/// - is_stopped(): whether the run ends before its last batch
/// - evaluate_if_due(batches), save_if_due(batches)
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
