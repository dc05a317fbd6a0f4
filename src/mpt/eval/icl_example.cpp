#include <mpt/eval/icl_example.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include <mpt/eval/python_random.hpp>
#include <mpt/eval/python_text.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::eval {

example_maker::example_maker(task_config const& task, task_rows const& rows, std::int64_t shots,
                             tokenizer const& tokenizer, text_affixes affixes)
    : task_(task),
      rows_(rows),
      tokenizer_(tokenizer),
      affixes_(std::move(affixes)),
      draws_(draw_all_examples(rows.rows.size(), static_cast<std::size_t>(shots), task.seed)),
      cache_(std::size_t{1} << 14),
      leading_space_(encode(" a").size() == 1) {
  if (task.kind != task_kind::generation) return;
  require_end(tokenizer,
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

task_example example_maker::make(std::size_t row) {
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

std::string example_maker::location_of(task_row const& row) const {
  return parallel::concat(rows_.name, ":", row.line);
}

example_maker::id_list example_maker::encode(std::string_view text) {
  id_list out;
  tokenizer_.encode(text, out, cache_);
  return out;
}

example_maker::id_list example_maker::encode_answer(std::string const& text) {
  return encode(leading_space_ && !text.starts_with(' ') ? " " + text : text);
}

example_maker::id_list example_maker::encode_preamble(std::string const& text) {
  auto out = join(join(affixes_.prefix, encode(text)), affixes_.suffix);
  if (out.size() > 1 && tokenizer_.eos_id() == out.back()) out.pop_back();
  return out;
}

example_maker::id_list example_maker::join(id_list front, id_list const& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

void example_maker::require_context(std::size_t tokens, task_row const& row) const {
  parallel::require(
      tokens > 0, location_of(row),
      ": nothing precedes the text that the model is to write; expected a context or a "
      "prompt_string of at least one token");
}

scored_ids example_maker::scored(id_list context, id_list const& answer,
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

}  // namespace mpt::eval
