#include <mpt/train/evaluation/task_evaluation.hpp>

#include <fmt/format.h>

#include <mpt/eval/icl_run.hpp>

namespace mpt {

task_scores task_evaluation::evaluate(text_model& model, eval::row_sharing const& sharing,
                                      std::int64_t batch) const {
  eval::task_model scorer(model);
  eval::model_report report;
  for (auto const& task : set_.tasks)
    for (auto const shots : task.config.shots)
      report.tasks.push_back(
          eval::run_task(task, shots, set_.tokenizer, scorer, sharing, set_.subset_batches));
  if (set_.gauntlet) report.gauntlet = eval::score_gauntlet(*set_.gauntlet, report.tasks);
  return {eval::metrics_of(report), lines_of(report, batch)};
}

std::vector<std::string> task_evaluation::lines_of(eval::model_report const& report,
                                                   std::int64_t batch) {
  std::vector<std::string> out;
  for (auto const& task : report.tasks)
    out.push_back(fmt::format("task {}, {}-shot, at {} ba: {:.1f} % of {} rows", task.label,
                              task.shots, batch, 100 * task.accuracy(), task.rows()));
  for (auto const& note : eval::notes_on_tasks(report)) out.push_back("note: " + note);
  if (!report.gauntlet) return out;
  for (auto const& [name, score] : report.gauntlet->averages)
    out.push_back(fmt::format("gauntlet {} at {} ba: {:.4f}", name, batch, score));
  for (auto const& [category, benchmark] : report.gauntlet->missing)
    out.push_back(fmt::format("note: no score for {}, as {} was not run", category, benchmark));
  return out;
}

}  // namespace mpt
