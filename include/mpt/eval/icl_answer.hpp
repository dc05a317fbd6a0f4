// Whether a generated answer is right: it begins with one of those that count.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include <mpt/eval/icl_task.hpp>
#include <mpt/eval/python_text.hpp>

namespace mpt::icl {

/// The part of what was generated that is compared: up to the first of task.stops (taken as they
/// are, not as patterns), behind the last cot_delimiter, normalised or at least without white space
/// around it.
[[nodiscard]] inline std::string cleaned_answer(task_config const& task, std::string_view output) {
  std::size_t end = output.size();
  for (auto const& stop : task.stops) end = std::min(end, output.find(stop));
  output = output.substr(0, end);
  if (!task.cot_delimiter.empty())
    if (auto const at = output.rfind(task.cot_delimiter); at != std::string_view::npos)
      output = output.substr(at + task.cot_delimiter.size());
  return task.do_normalization ? normalise_answer(output) : std::string(strip(output));
}

/// `answers`: those that count, as the task's file has them.
[[nodiscard]] inline bool answer_is_right(task_config const& task, std::string_view output,
                                          std::span<std::string const> answers) {
  auto const cleaned = cleaned_answer(task, output);
  return std::ranges::any_of(answers, [&](std::string const& answer) {
    return cleaned.starts_with(task.do_normalization ? normalise_answer(answer)
                                                     : std::string(strip(answer)));
  });
}

}  // namespace mpt::icl
