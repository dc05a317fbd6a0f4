// run_tasks: the interface by which a run evaluates its model on tasks of in-context learning.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mpt/eval/icl_run.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// The scores of tasks.
struct task_scores {
  std::vector<std::pair<std::string, double>> metrics;  ///< under LLM Foundry's names
  std::vector<std::string> lines;                       ///< for the user
};

/// Evaluates a model on tasks; task_evaluation implements it.
class run_tasks {
 public:
  run_tasks() = default;
  run_tasks(run_tasks&&) = delete;
  virtual ~run_tasks() = default;

  /// Collective over the ranks of `sharing`: every rank gets all scores of `model`.
  [[nodiscard]] virtual task_scores evaluate(text_model& model, eval::row_sharing const& sharing,
                                             std::int64_t batch) const = 0;
};

}  // namespace mpt
