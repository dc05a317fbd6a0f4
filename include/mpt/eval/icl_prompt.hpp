// Prompts: the text before a question, made of a task's examples, and the question itself.
//
// prompt_string, then the examples (each: example_delimiter unless it is first,
// question_prelimiter, question, continuation_delimiter, answer), then the question in the same
// form without its answer. A schema's question is one text for each of its contexts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/eval/icl_rows.hpp>

namespace mpt::icl {

/// The rows that precede each row as examples, [rows][shots], empty for none. One generator draws
/// for all rows in order, so a rank that runs only some rows still draws for all.
[[nodiscard]] std::vector<std::vector<std::size_t>> draw_all_examples(std::size_t rows,
                                                                      std::size_t shots,
                                                                      std::uint64_t seed);

/// The preamble of a row: the text before its own question.
[[nodiscard]] std::string preamble_text(task_config const& task, task_rows const& rows,
                                        std::span<std::size_t const> examples);

/// The question of a row, one per context for a schema. It ends without white space, which would
/// make an unusual next token likely. `is_first`: the preamble is empty.
[[nodiscard]] std::vector<std::string> question_texts(task_config const& task, task_row const& row,
                                                      bool is_first);

}  // namespace mpt::icl
