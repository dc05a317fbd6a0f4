// A row as the model reads it: ids and the range of them that is scored.
//
// Preamble, question and continuation are each tokenised alone and joined, as LLM Foundry does. A
// continuation begins with a space where the tokenizer writes words with theirs (" a" is one
// token). The tokens that the tokenizer adds around a text are added around the preamble alone,
// without a final token that ends a text. Where the row is longer than max_seq_len, its beginning
// is cut off.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/eval/icl_prompt.hpp>
#include <mpt/tokenizer/end_of_text.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::icl {

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
                tokenizer const& words, text_affixes affixes)
      : task_(task),
        rows_(rows),
        words_(words),
        affixes_(std::move(affixes)),
        draws_(draw_all_examples(rows.rows.size(), static_cast<std::size_t>(shots), task.seed)),
        cache_(std::size_t{1} << 14),
        leading_space_(encode(" a").size() == 1) {
    if (task.kind != task_kind::generation) return;
    require_end(words,
                parallel::concat("the generated answers of task ", task.label, " would never end"));
    for (auto const& answer : rows.answer_texts)
      longest_answer_ = std::max(
          longest_answer_, encode(answer).size() + affixes_.prefix.size() + affixes_.suffix.size());
    if (!task.cot_delimiter.empty()) longest_answer_ += 10;  // room for longer thoughts
    parallel::require(static_cast<std::int64_t>(longest_answer_) < task.max_seq_len, rows.name,
                      ": the longest answer takes ", longest_answer_,
                      " tokens, which leaves no room for a question in max_seq_len ",
                      task.max_seq_len);
  }

  [[nodiscard]] task_example make(std::size_t row) {
    auto const& row_data = rows_.rows[row];
    auto const preamble = preamble_text(task_, rows_, draws_[row]);
    auto const preamble_ids = encode_preamble(preamble);
    auto const questions = question_texts(task_, row_data, preamble.empty());
    task_example out;
    if (task_.kind == task_kind::multiple_choice) {
      auto const context = join(preamble_ids, encode(questions[0]));
      for (auto const& choice : row_data.options)
        out.options.push_back(scored(context, encode_answer(choice), row_data));
      return out;
    }
    if (task_.kind == task_kind::generation) {
      auto ids = join(preamble_ids, encode(questions[0]));
      auto const room = static_cast<std::size_t>(task_.max_seq_len) - longest_answer_;
      bool const is_cut = ids.size() > room;
      if (is_cut) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(room));
      require_context(ids.size(), row_data);
      auto const size = ids.size();
      out.options.push_back({std::move(ids), size, is_cut});
      out.new_tokens = static_cast<std::int64_t>(std::max<std::size_t>(longest_answer_, 1));
      return out;
    }
    auto const answer = encode_answer(row_data.answer);
    for (auto const& question : questions)
      out.options.push_back(scored(join(preamble_ids, encode(question)), answer, row_data));
    return out;
  }

  /// The location of a row, as "file:line".
  [[nodiscard]] std::string location_of(task_row const& row) const {
    return parallel::concat(rows_.name, ":", row.line);
  }

 private:
  using id_list = std::vector<std::int32_t>;

  [[nodiscard]] id_list encode(std::string_view text) {
    id_list out;
    words_.encode(text, out, cache_);
    return out;
  }
  [[nodiscard]] id_list encode_answer(std::string const& text) {
    return encode(leading_space_ && !text.starts_with(' ') ? " " + text : text);
  }
  [[nodiscard]] id_list encode_preamble(std::string const& text) {
    auto out = join(join(affixes_.prefix, encode(text)), affixes_.suffix);
    if (out.size() > 1 && words_.eos_id() == out.back()) out.pop_back();
    return out;
  }
  [[nodiscard]] static id_list join(id_list front, id_list const& back) {
    front.insert(front.end(), back.begin(), back.end());
    return front;
  }

  void require_context(std::size_t tokens, task_row const& row) const {
    parallel::require(
        tokens > 0, location_of(row),
        ": nothing precedes the text that the model is to write; expected a context or a "
        "prompt_string of at least one token");
  }

  [[nodiscard]] scored_ids scored(id_list context, id_list const& answer,
                                  task_row const& row) const {
    auto const max_length = static_cast<std::size_t>(task_.max_seq_len);
    parallel::require(!answer.empty(), location_of(row),
                      ": the text that the model is to write has no tokens");
    parallel::require(answer.size() < max_length, location_of(row),
                      ": the text that the model is to write has ", answer.size(),
                      " tokens, expected fewer than max_seq_len ", max_length);
    bool const is_cut = context.size() + answer.size() > max_length;
    if (is_cut)
      context.erase(context.begin(),
                    context.end() - static_cast<std::ptrdiff_t>(max_length - answer.size()));
    require_context(context.size(), row);
    auto const begin = context.size();
    return {join(std::move(context), answer), begin, is_cut};
  }

  task_config const& task_;
  task_rows const& rows_;
  tokenizer const& words_;
  text_affixes affixes_;
  std::vector<std::vector<std::size_t>> draws_;
  word_cache cache_;
  bool leading_space_;
  std::size_t longest_answer_ = 0;  // tokens
};

}  // namespace mpt::icl
