// A row as the model reads it: ids and the range of them that is scored.
//
// Preamble, question and continuation are each tokenised alone and joined, as LLM Foundry does. A
// continuation begins with a space where the tokenizer writes words with theirs (" a" is one
// token). The tokens that the tokenizer adds around a text are added around the preamble alone,
// without a final token that ends a text. Where the row is longer than max_seq_len, its beginning
// is cut off.
//
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
#include <string_view>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/eval/icl_rows.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::eval {

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

/// Ids, of which those from `begin` on are scored; for generation all ids are the prompt.
struct scored_ids {
  std::vector<std::int32_t> ids;
  std::size_t begin = 0;
  bool is_cut = false;  ///< the beginning of the context was cut off
};

/// The options of a row; language modelling and generation have one.
struct task_example {
  std::vector<scored_ids> options;
  std::int64_t new_tokens = 0;  ///< generation: the maximum number
};

/// Makes the examples of one part of a task, for one number of shots. Its arguments must outlive
/// it.
class example_maker {
 public:
  example_maker(task_config const& task, task_rows const& rows, std::int64_t shots,
                tokenizer const& tokenizer, text_affixes affixes);

  [[nodiscard]] task_example make(std::size_t row);

  /// The location of a row, as "file:line".
  [[nodiscard]] std::string location_of(task_row const& row) const;

 private:
  using id_list = std::vector<std::int32_t>;

  [[nodiscard]] id_list encode(std::string_view text);
  [[nodiscard]] id_list encode_answer(std::string const& text);
  [[nodiscard]] id_list encode_preamble(std::string const& text);
  [[nodiscard]] static id_list join(id_list front, id_list const& back);

  void require_context(std::size_t tokens, task_row const& row) const;

  [[nodiscard]] scored_ids scored(id_list context, id_list const& answer,
                                  task_row const& row) const;

  task_config const& task_;
  task_rows const& rows_;
  tokenizer const& tokenizer_;
  text_affixes affixes_;
  std::vector<std::vector<std::size_t>> draws_;
  word_cache cache_;
  bool leading_space_;
  std::size_t longest_answer_ = 0;  // tokens
};

}  // namespace mpt::eval
