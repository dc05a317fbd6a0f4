// Runs in-context-learning tasks: scores every row of every part, with the rows divided among
// ranks.
//
// Rows are assigned round-robin to ranks, each of which holds the whole model. The results are
// gathered once per part, so that every rank has all of them and the scores do not depend on the
// number of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/eval/icl_rows.hpp>
#include <mpt/eval/icl_score.hpp>
#include <mpt/generate/stop_strings.hpp>

namespace mpt::eval {

/// The number of a rank and of all ranks, which determine the rows of a task that the rank
/// computes, and the function that gathers the results.
struct row_sharing {
  int rank = 0;
  int ranks = 1;
  /// Returns every rank's text, by rank, on every rank; required for more than one rank.
  std::function<std::vector<std::string>(std::string const&)> gather = {};
};

/// A model's result for one row.
struct row_result {
  std::uint64_t line = 0;  ///< line in the task's file
  bool is_correct = false;
  std::vector<double> losses = {};  ///< loss of each option, nats per token
  std::size_t chosen = 0;           ///< the option with the least loss
  std::string output = {};          ///< generated text
  bool is_cut = false;              ///< the beginning of an option's context was cut off
};

/// The results of the rows of a task, or of one category of the task, with one number of shots (the
/// examples before each question).
struct part_result {
  std::string category;
  std::vector<row_result> rows = {};

  [[nodiscard]] double accuracy() const;
};

/// A model's results for a task.
struct task_result {
  std::string label;
  task_kind kind = task_kind::language_modeling;
  std::int64_t shots = 0;
  std::vector<part_result> parts = {};
  std::int64_t max_seq_len = 0;
  std::vector<std::string> notes = {};  ///< on parts that are scored otherwise than one may expect

  /// The mean of the parts' accuracies, whatever their numbers of rows, as LLM Foundry averages
  /// categories.
  [[nodiscard]] double accuracy() const;
  [[nodiscard]] std::size_t rows() const;
  /// Rows whose context was longer than max_seq_len allows.
  [[nodiscard]] std::size_t cut_contexts() const;
};

namespace detail {

/// Scores one row. `Model`: a task_model or a type with the same functions. `end_tokens`: the
/// tokens that end an answer.
template <class Model>
[[nodiscard]] row_result run_row(task_config const& task, task_row const& row,
                                 task_example const& example, tokenizer const& tokenizer,
                                 std::vector<std::int32_t> const& end_tokens, Model& model) {
  row_result out{.line = row.line};
  out.is_cut = std::ranges::any_of(example.options, &scored_ids::is_cut);
  if (task.kind == task_kind::generation) {
    stopped_text text(tokenizer, task.stops);
    static_cast<void>(
        model.generate(example.options[0].ids,
                       {.max_new_tokens = example.new_tokens,
                        .end_tokens = end_tokens,
                        .ends_text = [&](std::size_t, std::int32_t id) { return text.add(id); }}));
    out.output = text.finish();
    out.is_correct = is_answer_right(task, out.output, row.options);
    return out;
  }
  auto const scores = model.score(example.options);
  for (auto const& score : scores) out.losses.push_back(score.loss);
  out.chosen = static_cast<std::size_t>(std::ranges::min_element(out.losses) - out.losses.begin());
  out.is_correct =
      task.kind == task_kind::language_modeling ? scores[0].is_likeliest : out.chosen == row.gold;
  return out;
}

/// Puts the results of all ranks into `rows`, in which each rank has filled every
/// `sharing.ranks`-th row, starting with row `sharing.rank`.
void share_rows(std::vector<row_result>& rows, row_sharing const& sharing);

}  // namespace detail

/// The number of rows of a part that are run: all, or those of the first `batches` batches.
[[nodiscard]] std::size_t rows_to_run(task_config const& task, task_rows const& part,
                                      std::optional<std::int64_t> batches);

/// Sentences about the first `rows` rows of a part, which is named `name`: questions that have
/// fewer examples than `shots`, and those to which any text is a right answer.
[[nodiscard]] std::vector<std::string> notes_on_rows(task_config const& task, task_rows const& part,
                                                     std::string_view name, std::size_t rows,
                                                     std::int64_t shots);

/// Runs a task with `shots` examples before each question. Calls on_progress(rows) after every row
/// with the approximate number of rows that all ranks have finished. `extra_end_tokens`: tokens
/// that end an answer, in addition to the tokenizer's end-of-text token. Collective where `sharing`
/// has several ranks.
template <class Model>
[[nodiscard]] task_result run_task(loaded_task const& task, std::int64_t shots,
                                   tokenizer const& tokenizer, Model& model,
                                   row_sharing const& sharing = {},
                                   std::optional<std::int64_t> batches = std::nullopt,
                                   std::function<void(std::size_t)> const& on_progress = {},
                                   std::vector<std::int32_t> const& extra_end_tokens = {}) {
  task_result result{.label = task.config.label, .kind = task.config.kind, .shots = shots};
  result.max_seq_len = task.config.max_seq_len;
  auto const affixes = read_text_affixes(tokenizer);
  auto end_tokens = extra_end_tokens;
  if (auto const end = tokenizer.eos_id()) end_tokens.push_back(*end);
  for (auto const& [category, part] : task.parts) {
    example_maker maker(task.config, part, shots, tokenizer, affixes);
    std::vector<row_result> rows(rows_to_run(task.config, part, batches));
    for (auto i = static_cast<std::size_t>(sharing.rank); i < rows.size();
         i += static_cast<std::size_t>(sharing.ranks)) {
      rows[i] =
          detail::run_row(task.config, part.rows[i], maker.make(i), tokenizer, end_tokens, model);
      if (on_progress) on_progress(i + 1);
    }
    detail::share_rows(rows, sharing);
    for (auto& note : notes_on_rows(task.config, part, category, rows.size(), shots))
      result.notes.push_back(std::move(note));
    result.parts.push_back({category, std::move(rows)});
  }
  return result;
}

}  // namespace mpt::eval
