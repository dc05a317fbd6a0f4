#include <mpt/eval/icl_answer.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/eval/python_text.hpp>

namespace mpt::icl {

std::string cleaned_answer(task_config const& task, std::string_view output) {
  std::size_t end = output.size();
  for (auto const& stop : task.stops) end = std::min(end, output.find(stop));
  output = output.substr(0, end);
  if (!task.cot_delimiter.empty())
    if (auto const delimiter = output.rfind(task.cot_delimiter);
        delimiter != std::string_view::npos)
      output = output.substr(delimiter + task.cot_delimiter.size());
  return task.do_normalization ? normalise_answer(output) : std::string(strip(output));
}

bool is_answer_right(task_config const& task, std::string_view output,
                     std::span<std::string const> answers) {
  auto const cleaned = cleaned_answer(task, output);
  return std::ranges::any_of(answers, [&](std::string const& answer) {
    return cleaned.starts_with(task.do_normalization ? normalise_answer(answer)
                                                     : std::string(strip(answer)));
  });
}

}  // namespace mpt::icl
