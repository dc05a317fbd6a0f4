#include <mpt/eval/icl_prompt.hpp>

#include <string_view>

#include <mpt/eval/python_random.hpp>
#include <mpt/eval/python_text.hpp>

namespace mpt::icl {
namespace {

[[nodiscard]] std::string answer_text(task_config const& task, task_rows const& rows,
                                      task_row const& row) {
  switch (task.kind) {
    case task_kind::multiple_choice: return row.options[row.gold];
    case task_kind::generation:
      return rows.has_chain_of_thought ? row.chain_of_thought + task.cot_delimiter + row.answer
                                       : row.answer;
    default: return row.answer;
  }
}

/// The text of an example; `is_first`: nothing precedes it.
[[nodiscard]] std::string example_text(task_config const& task, task_rows const& rows,
                                       task_row const& row, bool is_first) {
  auto const delimiter = is_first ? std::string_view() : std::string_view(task.example_delimiter);
  if (task.kind == task_kind::schema)
    return parallel::concat(task.question_prelimiter, delimiter, row.options[row.gold],
                            task.continuation_delimiter, row.answer);
  return parallel::concat(delimiter, task.question_prelimiter, row.context,
                          task.continuation_delimiter, answer_text(task, rows, row));
}

}  // namespace

std::vector<std::vector<std::size_t>> draw_all_examples(std::size_t rows, std::size_t shots,
                                                        std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> out(rows);
  if (shots == 0) return out;
  python_random random(seed);
  for (std::size_t row = 0; row < rows; ++row) out[row] = draw_examples(rows, shots, row, random);
  return out;
}

std::string preamble_text(task_config const& task, task_rows const& rows,
                          std::span<std::size_t const> examples) {
  std::string out = task.prompt_string;
  for (auto const example : examples)
    out += example_text(task, rows, rows.rows[example], out.empty());
  return out;
}

std::vector<std::string> question_texts(task_config const& task, task_row const& row,
                                        bool is_first) {
  auto const delimiter = is_first ? std::string_view() : std::string_view(task.example_delimiter);
  if (task.kind != task_kind::schema) {
    auto const text = parallel::concat(delimiter, task.question_prelimiter, row.context,
                                       task.continuation_delimiter);
    return {std::string(rstrip(text))};
  }
  std::vector<std::string> out;
  auto const end = is_first ? std::string_view() : rstrip(task.continuation_delimiter);
  for (auto const& context : row.options)
    out.push_back(parallel::concat(task.question_prelimiter, delimiter, context, end));
  return out;
}

}  // namespace mpt::icl
