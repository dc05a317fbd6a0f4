#include <doctest/doctest.h>

#include <mpt/eval/icl_run.hpp>

#include "mpt/eval/icl_support.hpp"

namespace icl_run_test {

using namespace mpt::eval;

/// A model that prefers short options and generates a fixed answer.
struct stub_model {
  mpt::tokenizer const& tokenizer;
  std::string answer;

  std::vector<option_score> score(std::span<scored_ids const> options) {
    std::vector<option_score> out;
    for (auto const& option : options)
      out.push_back({.loss = static_cast<double>(option.ids.size() - option.begin),
                     .is_likeliest = option.ids.size() % 2 == 0});
    return out;
  }
  std::vector<std::int32_t> generate(std::span<std::int32_t const>,
                                     mpt::generation_options const& options) {
    std::vector<std::int32_t> out;
    for (auto const id : tokenizer.encode(answer)) {
      if (static_cast<std::int64_t>(out.size()) == options.max_new_tokens) break;
      if (std::ranges::find(options.end_tokens, id) != options.end_tokens.end()) break;
      out.push_back(id);
      if (options.ends_text(0, id)) break;
    }
    return out;
  }
};

loaded_task load(char const* file, task_kind kind, bool categories = false) {
  task_config task;
  task.label = file;
  task.kind = kind;
  task.file = icl_test::folder() / (std::string(file) + ".jsonl");
  task.has_categories = categories;
  return load_tasks({task})[0];
}

/// Tokens of the longest row of a task without categories.
std::int64_t longest_row(loaded_task const& task, std::int64_t shots,
                         mpt::tokenizer const& tokenizer) {
  auto const& part = task.parts.at("");
  example_maker maker(task.config, part, shots, tokenizer, mpt::read_text_affixes(tokenizer));
  std::size_t longest = 0;
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    auto const row = maker.make(i);
    for (auto const& option : row.options)
      longest = std::max(longest, option.ids.size() + static_cast<std::size_t>(row.new_tokens));
  }
  return static_cast<std::int64_t>(longest);
}

TEST_CASE("task run: the first option with the least loss is chosen") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{tokenizer, ""};
  auto const task = load("choice", task_kind::multiple_choice);
  auto const result = run_task(task, 2, tokenizer, model);
  REQUIRE(result.rows() == 12);
  std::size_t correct_rows = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    auto const& row = result.parts[0].rows[i];
    auto const& expected = task.parts.at("").rows[i];
    CHECK(row.line == expected.line);
    REQUIRE(row.losses.size() == expected.options.size());
    auto const least_loss = std::ranges::min_element(row.losses) - row.losses.begin();
    CHECK(row.chosen == static_cast<std::size_t>(least_loss));
    CHECK(row.is_correct == (row.chosen == expected.gold));
    correct_rows += row.is_correct;
  }
  CHECK(result.accuracy() == doctest::Approx(static_cast<double>(correct_rows) / 12));
}

TEST_CASE("task run: categories have equal weight, and a number of batches limits the rows") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{tokenizer, ""};
  auto task = load("language", task_kind::language_modeling, true);
  auto const result = run_task(task, 1, tokenizer, model);
  REQUIRE(result.parts.size() == 3);
  double sum = 0;
  for (auto const& part : result.parts) sum += part.accuracy();
  CHECK(result.accuracy() == doctest::Approx(sum / 3));

  task = load("language", task_kind::language_modeling);
  task.config.batch_size = 5;
  CHECK(run_task(task, 0, tokenizer, model, {}, 2).rows() == 10);
  CHECK(run_task(task, 0, tokenizer, model, {}, -1).rows() == 12);
  auto choice = load("choice", task_kind::multiple_choice);  // two options in the first row
  choice.config.batch_size = 5;
  CHECK(run_task(choice, 0, tokenizer, model, {}, 2).rows() == 4);
}

TEST_CASE("task run: a generated answer ends at a stop string and may equal any accepted answer") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{tokenizer, "the mill keeper\nWho else?"};
  auto task = load("answers", task_kind::generation);
  task.config.stops = {"\n"};
  auto const result = run_task(task, 0, tokenizer, model);
  CHECK(result.parts[0].rows[1].output == "the mill keeper");
  CHECK(result.parts[0].rows[1].is_correct);
  CHECK_FALSE(result.parts[0].rows[0].is_correct);
}

TEST_CASE("task run: a generated answer ends at the end-of-text token and at given end tokens") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  auto const task = load("answers", task_kind::generation);
  stub_model model{tokenizer, "the mill<|endoftext|> keeper"};
  REQUIRE(tokenizer.eos_id() == tokenizer.encode("<|endoftext|>").front());
  CHECK(run_task(task, 0, tokenizer, model).parts[0].rows[1].output == "the mill");
  auto const first = tokenizer.encode("the mill");
  REQUIRE(first.size() > 1);
  auto const ended = run_task(task, 0, tokenizer, model, {}, {}, {}, {first.back()});
  CHECK(ended.parts[0].rows[1].output ==
        tokenizer.decode(std::span(first).first(first.size() - 1)));
}

TEST_CASE("task run: every rank gets every row, for any number of ranks") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  auto task = load("choice", task_kind::multiple_choice);
  task.config.max_seq_len = longest_row(task, 3, tokenizer) - 1;
  stub_model model{tokenizer, ""};
  auto const single_rank = run_task(task, 3, tokenizer, model);
  CHECK(single_rank.cut_contexts() > 0);
  CHECK(single_rank.cut_contexts() < 12);
  for (int const ranks : {2, 3, 13}) {
    // the first turn collects each rank's text, the second returns all of them
    std::vector<std::string> texts(static_cast<std::size_t>(ranks));
    for (int turn = 0; turn < 2; ++turn)
      for (int rank = 0; rank < ranks; ++rank) {
        auto const result =
            run_task(task, 3, tokenizer, model,
                     {.rank = rank, .ranks = ranks, .gather = [&](auto const& text) {
                        texts[static_cast<std::size_t>(rank)] = text;
                        return turn == 0 ? std::vector<std::string>() : texts;
                      }});
        if (turn == 0) continue;
        for (std::size_t i = 0; i < 12; ++i) {
          CHECK(result.parts[0].rows[i].losses == single_rank.parts[0].rows[i].losses);
          CHECK(result.parts[0].rows[i].is_correct == single_rank.parts[0].rows[i].is_correct);
          CHECK(result.parts[0].rows[i].line == single_rank.parts[0].rows[i].line);
          CHECK(result.parts[0].rows[i].is_cut == single_rank.parts[0].rows[i].is_cut);
        }
      }
  }
}

TEST_CASE("task run: contexts that are cut to max_seq_len are counted for every kind of task") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{tokenizer, "x"};
  struct file_of_kind {
    char const* name;
    task_kind kind;
  };
  for (auto const& file : {file_of_kind{"language", task_kind::language_modeling},
                           {"choice", task_kind::multiple_choice},
                           {"schema", task_kind::schema},
                           {"answers", task_kind::generation}}) {
    CAPTURE(file.name);
    auto task = load(file.name, file.kind);
    auto const whole = run_task(task, 2, tokenizer, model);
    CHECK(whole.cut_contexts() == 0);
    // no row is cut at the length of the longest row; one token less cuts that row
    auto const longest = longest_row(task, 2, tokenizer);
    task.config.max_seq_len = longest;
    CHECK(run_task(task, 2, tokenizer, model).cut_contexts() == 0);
    task.config.max_seq_len = longest - 1;
    auto const cut = run_task(task, 2, tokenizer, model);
    CHECK(cut.cut_contexts() >= 1);
    CHECK(cut.cut_contexts() < cut.rows());
    CHECK(cut.max_seq_len == task.config.max_seq_len);
  }
}

TEST_CASE("task run: notes name questions with fewer examples than num_fewshot") {
  auto const tokenizer = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{tokenizer, "x"};
  auto const task = load("choice", task_kind::multiple_choice);
  auto const others = static_cast<std::int64_t>(task.parts.at("").rows.size()) - 1;
  CHECK(run_task(task, others, tokenizer, model).notes.empty());
  CHECK(run_task(task, others + 1, tokenizer, model).notes ==
        std::vector<std::string>{parallel::concat(
            "questions have ", others, " examples each, as there are only ", others + 1, " rows")});
  task_rows const part{.name = "x.jsonl", .rows = std::vector<task_row>(2)};
  CHECK(
      notes_on_rows(task.config, part, "art", 1, 5) ==
      std::vector<std::string>{"questions of art have 1 examples each, as there are only 2 rows"});
}

TEST_CASE("task run: a note counts the questions to which any text is right") {
  task_config task{.kind = task_kind::generation};
  auto const notes = [&](std::vector<std::string> const& answers) {
    task_rows part{.name = "x.jsonl", .rows = {}};
    for (auto const& answer : answers)
      part.rows.push_back({.line = part.rows.size() + 7, .options = {"b", answer}});
    return notes_on_rows(task, part, "", part.rows.size(), 0);
  };
  // what LLM Foundry's normalize_answer leaves of each
  for (auto const* const empty : {"$a$", "(a", "The The", "_", "\u2018An\u2019", ""}) {
    CHECK(notes({empty}).size() == 1);
    CHECK(is_answer_right(task, "anything", std::vector<std::string>{empty}));
  }
  for (auto const* const answer : {"a1", "an apple", "\u00df", "\u2026"})
    CHECK(notes({answer}).empty());
  CHECK(
      notes({"one", "A.", "two", "the"}) ==
      std::vector<std::string>{
          "any text counts as right for 2 of 4 rows, such as x.jsonl:8, whose answer \"A.\" leaves "
          "nothing to compare without articles and punctuation (do_normalization); remove such "
          "answers"});
  task.do_normalization = false;
  CHECK(notes({"A."}).empty());
  CHECK(notes({" "}).size() == 1);
}

}  // namespace icl_run_test
