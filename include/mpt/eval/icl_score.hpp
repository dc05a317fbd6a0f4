// A model's scores of the options of a row: the loss of the scored ids of each option, and whether
// they are the likeliest.
//
// The common beginning of the options is read once, into a KV cache, from which each option
// continues: a question with four choices costs little more than one.
//
// Whether a generated answer is right: it begins with one of the accepted answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/eval/icl_example.hpp>
#include <mpt/generate/generate.hpp>

namespace mpt::eval {

/// A model's score of one option.
struct option_score {
  double loss = 0;  ///< mean over the scored tokens, in nats: the logarithm of the perplexity
  bool is_likeliest = false;  ///< every scored token is the likeliest one (ties: the lowest id)
};

/// The length of the common beginning of all options, within the ids before the last unscored one.
[[nodiscard]] std::size_t common_beginning(std::span<scored_ids const> options);

/// Adds the prediction of one token to a score; `logits` has one value per vocabulary entry.
void add_prediction(option_score& score, std::span<float const> logits, std::int32_t target);

/// Scores and continues rows by a model, which must outlive it.
class task_model {
 public:
  explicit task_model(text_model& reader) : reader_(reader) {}

  [[nodiscard]] std::vector<option_score> score(std::span<scored_ids const> options);

  /// mpt::generate for one prompt.
  [[nodiscard]] std::vector<std::int32_t> generate(std::vector<std::int32_t> const& prompt,
                                                   generation_options const& options);

 private:
  text_model& reader_;
};

/// The compared part of a generated text: up to the first of task.stops (literal texts, not
/// patterns) and after the last cot_delimiter; normalised, or at least stripped of white space.
[[nodiscard]] std::string cleaned_answer(task_config const& task, std::string_view output);

/// An accepted answer as it is compared: normalised, or at least stripped of white space.
[[nodiscard]] std::string compared_answer(task_config const& task, std::string_view answer);

/// Whether `output` is right: it begins with one of the answers, as in LLM Foundry, so that any
/// text is right where nothing is left of a compared answer. `answers`: the accepted answers as in
/// the task's file.
[[nodiscard]] bool is_answer_right(task_config const& task, std::string_view output,
                                   std::span<std::string const> answers);

}  // namespace mpt::eval
