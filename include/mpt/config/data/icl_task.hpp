// A task of in-context learning as LLM Foundry describes it: its rows and the parts of a prompt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mpt::eval {

/// What a task asks of a model.
enum class task_kind : std::uint8_t {
  language_modeling,  ///< is every token of the continuation the likeliest one?
  multiple_choice,    ///< which of the choices has the least loss a token?
  schema,             ///< after which of the contexts has the continuation the least loss a token?
  generation          ///< does what the model writes begin with one of the answers?
};

/// The settings of a task, with the names and defaults of LLM Foundry.
struct task_config {
  std::string label;
  std::filesystem::path file;
  task_kind kind = task_kind::language_modeling;
  std::vector<std::int64_t> shots = {0};  ///< numbers of examples; each is run separately
  std::string prompt_string;              ///< once, at the beginning
  std::string example_delimiter = "\n";
  std::string continuation_delimiter = " ";
  std::string question_prelimiter;  ///< before each question
  std::string cot_delimiter;        ///< before the answer, after a chain of thought
  std::vector<std::string> stops;   ///< an answer ends before any of these
  bool do_normalization = true;     ///< normalise generated answers
  bool has_categories = false;      ///< each category is its own task
  std::uint64_t seed = 1234;        ///< seed of the draws of examples
  std::int64_t batch_size = 0;      ///< rows per batch, for icl_subset_num_batches
  std::int64_t max_seq_len = 2048;  ///< longer contexts lose their beginning

  friend bool operator==(task_config const&, task_config const&) = default;
};

/// The name of the score in logs.
[[nodiscard]] std::string_view metric_of(task_kind kind);

/// The name of a kind of task in LLM Foundry's files.
[[nodiscard]] std::string_view to_string(task_kind kind);

}  // namespace mpt::eval
