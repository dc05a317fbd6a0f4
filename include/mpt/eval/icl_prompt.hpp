// Prompts: the text before a question, made of a task's examples, and the question itself.
//
// prompt_string, then the examples (each: example_delimiter unless it is first,
// question_prelimiter, question, continuation_delimiter, answer), then the question in the same
// form without its answer. A schema's question is one text for each of its contexts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/eval/icl_rows.hpp>
#include <mpt/eval/icl_task.hpp>
#include <mpt/eval/python_random.hpp>

namespace mpt::icl {

/// The rows that precede each row as examples, [rows][shots], empty for none. One generator draws
/// for all rows in order, so a rank that runs only some rows still draws for all.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> draw_all_examples(std::size_t rows,
                                                                             std::size_t shots,
                                                                             std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> out(rows);
  if (shots == 0) return out;
  python_random random(seed);
  for (std::size_t row = 0; row < rows; ++row) out[row] = draw_examples(rows, shots, row, random);
  return out;
}

namespace detail {

[[nodiscard]] inline std::string answer_text(task_config const& task, task_rows const& rows,
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
[[nodiscard]] inline std::string example_text(task_config const& task, task_rows const& rows,
                                              task_row const& row, bool is_first) {
  auto const delimiter = is_first ? std::string_view() : std::string_view(task.example_delimiter);
  if (task.kind == task_kind::schema)
    return parallel::concat(task.question_prelimiter, delimiter, row.options[row.gold],
                            task.continuation_delimiter, row.answer);
  return parallel::concat(delimiter, task.question_prelimiter, row.context,
                          task.continuation_delimiter, answer_text(task, rows, row));
}

}  // namespace detail

/// The preamble of a row: the text before its own question.
[[nodiscard]] inline std::string preamble_text(task_config const& task, task_rows const& rows,
                                               std::span<std::size_t const> examples) {
  std::string out = task.prompt_string;
  for (auto const example : examples)
    out += detail::example_text(task, rows, rows.rows[example], out.empty());
  return out;
}

/// The question of a row, one per context for a schema. It ends without white space, which would
/// make an unusual next token likely. `is_first`: the preamble is empty.
[[nodiscard]] inline std::vector<std::string> question_texts(task_config const& task,
                                                             task_row const& row, bool is_first) {
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
