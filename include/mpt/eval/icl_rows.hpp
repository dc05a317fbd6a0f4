// The rows of a task: JSON lines with the keys of its kind, checked before anything is computed.
//
//   language_modeling              {"context", "continuation"}
//   multiple_choice                {"query", "choices": [..], "gold": index}
//   schema                         {"context_options": [..], "continuation", "gold": index}
//   generation_task_with_answers   {"context", "answer", "aliases": [..], "chain_of_thought"}
//
// and "category" where the task has categories. Other keys are ignored. As in LLM Foundry, white
// space around texts is stripped, except in lists. Errors name file, line, the value found and the
// value expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/data/document_reader.hpp>
#include <parallel/checkpoint/format/json.hpp>

namespace mpt::eval {

/// One row of a task: a question with its answers.
struct task_row {
  std::uint64_t line = 0;
  std::string context;               ///< context or query
  std::string answer;                ///< answer or continuation
  std::vector<std::string> options;  ///< choices, context_options, or the accepted answers
  std::size_t gold = 0;              ///< index of the right option
  std::string chain_of_thought;
  std::string category;
};

/// The rows of a file, or of one category of it.
struct task_rows {
  std::string name;  ///< name of the file, for messages
  std::vector<task_row> rows;
  bool has_chain_of_thought = false;
  /// Generation: every accepted answer as written in the file, white space included; the longest
  /// determines how many tokens are generated.
  std::vector<std::string> answer_texts;
};

/// The most rows, options of a row and bytes of a line that a task may have.
struct task_limits {
  std::size_t rows = 10'000'000;
  std::size_t options = 1000;  ///< per row
  std::uint64_t line_bytes = std::uint64_t{1} << 26;
};

/// Reads a task's file: its rows in order, by (sorted) category where the task has categories, else
/// all under "". Throws where a row is wrong or the file has none. Memory: all rows.
[[nodiscard]] std::map<std::string, task_rows> read_task_rows(task_config const& task,
                                                              task_limits const& limits = {});

/// A task with its parts, read and checked.
struct loaded_task {
  task_config config;
  std::map<std::string, task_rows> parts;
};

/// Reads the files of all tasks, before anything is computed.
[[nodiscard]] std::vector<loaded_task> load_tasks(std::vector<task_config> const& tasks);

}  // namespace mpt::eval
