// Whether a generated answer is right: it begins with one of the accepted answers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <mpt/config/data/icl_task.hpp>

namespace mpt::icl {

/// The compared part of a generated text: up to the first of task.stops (literal texts, not
/// patterns) and after the last cot_delimiter; normalised, or at least stripped of white space.
[[nodiscard]] std::string cleaned_answer(task_config const& task, std::string_view output);

/// Whether `output` is right. `answers`: the accepted answers as in the task's file.
[[nodiscard]] bool is_answer_right(task_config const& task, std::string_view output,
                                   std::span<std::string const> answers);

}  // namespace mpt::icl
