#include <mpt/config/data/icl_task.hpp>

namespace mpt::eval {

std::string_view metric_of(task_kind kind) {
  switch (kind) {
    case task_kind::language_modeling: return "InContextLearningLMAccuracy";
    case task_kind::generation: return "InContextLearningGenerationExactMatchAccuracy";
    default: return "InContextLearningMultipleChoiceAccuracy";
  }
}

std::string_view to_string(task_kind kind) {
  switch (kind) {
    case task_kind::language_modeling: return "language_modeling";
    case task_kind::multiple_choice: return "multiple_choice";
    case task_kind::schema: return "schema";
    default: return "generation_task_with_answers";
  }
}

}  // namespace mpt::eval
