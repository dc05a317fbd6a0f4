// task_evaluation: tasks of in-context learning while a model trains, their rows divided among data
// ranks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/eval/icl_report.hpp>
#include <mpt/eval/icl_run.hpp>
#include <mpt/train/task_set.hpp>

namespace mpt {

/// Room for a row of any of the tasks.
[[nodiscard]] inline decoder_room room_of(std::vector<icl::task_config> const& tasks) {
  decoder_room room;
  for (auto const& task : tasks) room.tokens = std::max<index>(room.tokens, task.max_seq_len);
  return room;
}

/// Collective over all ranks of the run; every rank gets the results. `model`: a run_decoder.
template <class RunDecoder>
[[nodiscard]] icl::model_report evaluate_tasks(task_set const& set, RunDecoder& model,
                                               int data_rank, int data_ranks) {
  icl::row_sharing const sharing{
      .rank = data_rank, .ranks = data_ranks, .gather = [&](std::string const& rows) {
        return model.gather(rows);
      }};
  icl::task_model scorer(model.texts());
  icl::model_report out;
  for (auto const& task : set.tasks)
    for (auto const shots : task.config.shots)
      out.tasks.push_back(
          icl::run_task(task, shots, set.words, scorer, sharing, set.subset_batches));
  if (set.gauntlet) out.gauntlet = icl::score_gauntlet(*set.gauntlet, out.tasks);
  return out;
}

}  // namespace mpt
