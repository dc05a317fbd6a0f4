// model_evaluations: evaluates the model of a run between batches, on its evaluation sets and
// tasks, and lets it write samples.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/train/checkpoint/best_evaluation.hpp>
#include <mpt/train/evaluation/evaluate_set.hpp>
#include <mpt/train/evaluation/run_decoder.hpp>
#include <mpt/train/report/reporter.hpp>
#include <mpt/train/run_context.hpp>
#include <mpt/train/run_parts.hpp>
#include <mpt/train/setup/decoder_rooms.hpp>
#include <mpt/train/setup/run_stages.hpp>

namespace mpt {

template <class T, class Device, class Comm, class Session>
class model_evaluations {
 public:
  /// All arguments must outlive it.
  model_evaluations(run_context& run, run_parts const& parts, run_mesh<Device, Comm>& mesh,
                    model<T, Comm> const& net, Session& session)
      : run_(run),
        parts_(parts),
        resources_{net, session, mesh,
                   stages_of(run.config.model, run.config.execution.parallelism,
                             mesh.ranks().pipeline.rank())
                       .ranges()},
        sets_(parts.data->evaluation_sets(run.config.model, run.config.data, run.config.evaluation,
                                          run.config.execution, mesh.data_ranks())) {
    if (auto const& generate = run.config.callbacks.generate)
      samples_.emplace(*generate, run.config.model, run.config.run,
                       mesh.data_rank() == 0 ? parts.prompts : nullptr);
  }

  /// Evaluates the model on the evaluation sets, then on the tasks. `report`: where rank 0 reports;
  /// `best`: is told the loss on the first set.
  void evaluate(std::optional<reporter>& report, best_evaluation& best) {
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      auto const totals = evaluate_set(*sets_[i], resources_.session, resources_.mesh,
                                       run_.config.evaluation.device_eval_batch_size,
                                       run_.config.data.eval_loaders[i].max_seq_len);
      auto const r =
          report_of(totals, run_.config.data.eval_loaders[i].label, run_.batch, run_.clock);
      if (i == 0) best.record_evaluation(run_.batch, r.loss);
      if (i == 0) run_.summary.evaluation = r;
      if (report) report->evaluation(r.label, run_.batch, r.loss, r.accuracy, totals.tokens);
      run_.callbacks.evaluation_end(run_.control, r);
    }
    if (run_.config.evaluation.icl.tasks.empty()) return;
    decoder_type text_decoder(resources_, room_of(run_.config.evaluation.icl.tasks));
    auto& scores = run_.summary.tasks;
    scores = parts_.tasks->evaluate(text_decoder.texts(), text_decoder.sharing(), run_.batch);
    if (report) report->tasks(scores, run_.batch);
  }

  /// Lets the model write samples, if they are due after this batch.
  void write_samples() {
    if (!samples_ || !samples_->is_due(run_.batch, run_.clock)) return;
    decoder_type text_decoder(resources_, samples_->room());
    samples_->write(text_decoder.texts(), run_.control, run_.batch);
    text_decoder.finish();
  }

 private:
  using decoder_type = run_decoder<T, Device, Comm, Session>;

  run_context& run_;
  run_parts const& parts_;
  typename decoder_type::run_resources resources_;
  std::vector<std::unique_ptr<evaluation_set>> sets_;
  std::optional<generate_callback> samples_;
};

}  // namespace mpt
