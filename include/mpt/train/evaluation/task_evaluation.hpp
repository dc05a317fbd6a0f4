// task_evaluation: tasks of in-context learning while a model trains, their rows divided among data
// ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mpt/eval/icl_report.hpp>
#include <mpt/train/evaluation/run_tasks.hpp>
#include <mpt/train/evaluation/task_set.hpp>

namespace mpt {

class task_evaluation final : public run_tasks {
 public:
  explicit task_evaluation(task_set set) : set_(std::move(set)) {}

  [[nodiscard]] task_scores evaluate(text_model& model, eval::row_sharing const& sharing,
                                     std::int64_t batch) const override;

 private:
  [[nodiscard]] static std::vector<std::string> lines_of(eval::model_report const& report,
                                                         std::int64_t batch);

  task_set set_;
};

}  // namespace mpt
