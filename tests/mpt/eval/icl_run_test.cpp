#include <doctest/doctest.h>

#include <mpt/eval/icl_run.hpp>

#include "mpt/eval/icl_support.hpp"

namespace icl_run_test {

using namespace mpt::icl;

/// A model that likes short options and answers with words of its own.
struct stub_model {
  mpt::tokenizer const& words;
  std::string says;

  std::vector<option_score> score(std::span<scored_ids const> options) {
    std::vector<option_score> out;
    for (auto const& option : options)
      out.push_back({.loss = static_cast<double>(option.ids.size() - option.begin),
                     .likeliest = option.ids.size() % 2 == 0});
    return out;
  }
  std::vector<std::int32_t> generate(std::span<std::int32_t const>,
                                     mpt::generation_options const& options) {
    std::vector<std::int32_t> out;
    for (auto const id : words.encode(says)) {
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
std::int64_t longest_row(loaded_task const& task, std::int64_t shots, mpt::tokenizer const& words) {
  auto const& part = task.parts.at("");
  example_maker maker(task.config, part, shots, words, mpt::read_text_affixes(words));
  std::size_t longest = 0;
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    auto const row = maker.make(i);
    for (auto const& option : row.options)
      longest = std::max(longest, option.ids.size() + static_cast<std::size_t>(row.new_tokens));
  }
  return static_cast<std::int64_t>(longest);
}

TEST_CASE("the option of the least loss is chosen, the first of equal ones") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{words, ""};
  auto const task = load("choice", task_kind::multiple_choice);
  auto const result = run_task(task, 2, words, model);
  REQUIRE(result.rows() == 12);
  std::size_t right = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    auto const& row = result.parts[0].rows[i];
    auto const& given = task.parts.at("").rows[i];
    CHECK(row.line == given.line);
    REQUIRE(row.losses.size() == given.options.size());
    auto const least = std::ranges::min_element(row.losses) - row.losses.begin();
    CHECK(row.chosen == static_cast<std::size_t>(least));
    CHECK(row.correct == (row.chosen == given.gold));
    right += row.correct;
  }
  CHECK(result.accuracy() == doctest::Approx(static_cast<double>(right) / 12));
}

TEST_CASE("categories count alike, and the first rows are as many as so many batches hold") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{words, ""};
  auto task = load("language", task_kind::language_modeling, true);
  auto const result = run_task(task, 1, words, model);
  REQUIRE(result.parts.size() == 3);
  double sum = 0;
  for (auto const& part : result.parts) sum += part.accuracy();
  CHECK(result.accuracy() == doctest::Approx(sum / 3));

  task = load("language", task_kind::language_modeling);
  task.config.batch_size = 5;
  CHECK(run_task(task, 0, words, model, {}, 2).rows() == 10);
  CHECK(run_task(task, 0, words, model, {}, -1).rows() == 12);
  auto choice = load("choice", task_kind::multiple_choice);  // two options in the first row
  choice.config.batch_size = 5;
  CHECK(run_task(choice, 0, words, model, {}, 2).rows() == 4);
}

TEST_CASE("a generated answer ends at a stop string and is compared with all that count") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{words, "the mill keeper\nWho else?"};
  auto task = load("answers", task_kind::generation);
  task.config.stops = {"\n"};
  auto const result = run_task(task, 0, words, model);
  CHECK(result.parts[0].rows[1].output == "the mill keeper");
  CHECK(result.parts[0].rows[1].correct);
  CHECK_FALSE(result.parts[0].rows[0].correct);
}

TEST_CASE("a generated answer ends at the tokenizer's end of text, and at others that are named") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  auto const task = load("answers", task_kind::generation);
  stub_model model{words, "the mill<|endoftext|> keeper"};
  REQUIRE(words.eos_id() == words.encode("<|endoftext|>").front());
  CHECK(run_task(task, 0, words, model).parts[0].rows[1].output == "the mill");
  auto const first = words.encode("the mill");
  REQUIRE(first.size() > 1);
  auto const ended = run_task(task, 0, words, model, {}, {}, {}, {first.back()});
  CHECK(ended.parts[0].rows[1].output == words.decode(std::span(first).first(first.size() - 1)));
}

TEST_CASE("any number of ranks gives every rank every row") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  auto task = load("choice", task_kind::multiple_choice);
  task.config.max_seq_len = longest_row(task, 3, words) - 1;
  stub_model model{words, ""};
  auto const alone = run_task(task, 3, words, model);
  CHECK(alone.cut_contexts() > 0);
  CHECK(alone.cut_contexts() < 12);
  for (int const ranks : {2, 3, 13}) {
    // each rank's text is taken in a first turn, all are given in a second
    std::vector<std::string> texts(static_cast<std::size_t>(ranks));
    for (int turn = 0; turn < 2; ++turn)
      for (int rank = 0; rank < ranks; ++rank) {
        auto const result = run_task(task, 3, words, model,
                                     {.rank = rank, .ranks = ranks, .gather = [&](auto const& own) {
                                        texts[static_cast<std::size_t>(rank)] = own;
                                        return turn == 0 ? std::vector<std::string>() : texts;
                                      }});
        if (turn == 0) continue;
        for (std::size_t i = 0; i < 12; ++i) {
          CHECK(result.parts[0].rows[i].losses == alone.parts[0].rows[i].losses);
          CHECK(result.parts[0].rows[i].correct == alone.parts[0].rows[i].correct);
          CHECK(result.parts[0].rows[i].line == alone.parts[0].rows[i].line);
          CHECK(result.parts[0].rows[i].is_cut == alone.parts[0].rows[i].is_cut);
        }
      }
  }
}

TEST_CASE("contexts that are cut to max_seq_len are counted, of every kind of task") {
  auto const words = mpt::tokenizer::load(icl_test::folder() / "tokenizer_a");
  stub_model model{words, "x"};
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
    auto const whole = run_task(task, 2, words, model);
    CHECK(whole.cut_contexts() == 0);
    // as long as the longest row: none is cut; a token less, and that one is
    auto const longest = longest_row(task, 2, words);
    task.config.max_seq_len = longest;
    CHECK(run_task(task, 2, words, model).cut_contexts() == 0);
    task.config.max_seq_len = longest - 1;
    auto const cut = run_task(task, 2, words, model);
    CHECK(cut.cut_contexts() >= 1);
    CHECK(cut.cut_contexts() < cut.rows());
    CHECK(cut.max_seq_len == task.config.max_seq_len);
  }
}

}  // namespace icl_run_test
