#include <doctest/doctest.h>

#include <mpt/eval/icl_example.hpp>
#include <mpt/eval/python_text.hpp>

#include "mpt/eval/icl_support.hpp"
#include "support/data.hpp"

namespace icl_example_test {

using namespace mpt::eval;

TEST_CASE("task examples: texts and ids of every kind of task equal LLM Foundry's") {
  auto const golden = icl_test::load();
  std::size_t rows = 0;
  for (auto const& golden_case : golden.at("cases")) {
    auto const task = icl_test::task_of(
        golden_case, icl_test::folder() / (golden_case.at("file").get<std::string>() + ".jsonl"));
    CAPTURE(golden_case.at("kind").get<std::string>());
    CAPTURE(golden_case.at("shots").get<int>());
    auto const words = mpt::tokenizer::load(
        icl_test::folder() / ("tokenizer_" + golden_case.at("tokenizer").get<std::string>()));
    auto const parts = read_task_rows(task);
    auto const& part = parts.at(golden_case.at("category"));
    REQUIRE(part.rows.size() == golden_case.at("rows").size());
    example_maker maker(task, part, golden_case.at("shots"), words, mpt::read_text_affixes(words));
    auto const draws = draw_all_examples(part.rows.size(), golden_case.at("shots"), task.seed);
    for (std::size_t i = 0; i < part.rows.size(); ++i, ++rows) {
      CAPTURE(i);
      if (!golden_case.at("texts").empty()) {
        auto const& texts = golden_case.at("texts").at(i);
        auto const preamble = preamble_text(task, part, draws[i]);
        CHECK(preamble == texts.at(0).get<std::string>());
        auto const questions = question_texts(task, part.rows[i], preamble.empty());
        auto const expected = texts.at(1).is_array() ? texts.at(1).get<std::vector<std::string>>()
                                                     : std::vector{texts.at(1).get<std::string>()};
        REQUIRE(questions.size() == expected.size());
        for (std::size_t q = 0; q < questions.size(); ++q)
          CHECK(rstrip(questions[q]) == rstrip(expected[q]));
      }
      auto const& expected = golden_case.at("rows").at(i);
      auto const example = maker.make(i);
      REQUIRE(example.options.size() == expected.at("options").size());
      CHECK(example.new_tokens == expected.at("new_tokens").get<std::int64_t>());
      CHECK(part.rows[i].gold * (task.kind != task_kind::generation) ==
            expected.at("gold").get<std::size_t>());
      for (std::size_t o = 0; o < example.options.size(); ++o) {
        CHECK(example.options[o].ids ==
              expected.at("options").at(o).at(0).get<std::vector<std::int32_t>>());
        CHECK(example.options[o].begin == expected.at("options").at(o).at(1).get<std::size_t>());
      }
    }
  }
  CHECK(rows > 150);
}

/// The same hash as row_hash in make_icl_golden.py.
class row_hash {
 public:
  void add(std::int64_t number) {
    value_ = (value_ ^ static_cast<std::uint32_t>(number)) * 0x100000001B3U;
  }
  [[nodiscard]] std::string text() const {
    char out[17];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value_));
    return out;
  }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

TEST_CASE("task examples: all rows of LLM Foundry's task files equal LLM Foundry's") {
  auto const data = test::data_folder();
  if (data.empty() || !std::filesystem::exists(data / "eval/local_data")) {
    MESSAGE("skipped: the shared sample data is not here");
    return;
  }
  auto const words = mpt::tokenizer::load(data / "tokenizers/gpt-neox-20b");
  auto const affixes = mpt::read_text_affixes(words);
  std::string file;
  std::map<std::string, task_rows> parts;
  std::size_t files = 0;
  for (auto const& golden_case : icl_test::load("foundry_hashes.json")) {
    auto const task = icl_test::task_of(
        golden_case, data / "eval/local_data" / golden_case.at("file").get<std::string>());
    CAPTURE(task.label);
    CAPTURE(golden_case.at("category").get<std::string>());
    if (file != task.label) {
      file = task.label;
      parts = read_task_rows(task);
      ++files;
    }
    auto const& part = parts.at(golden_case.at("category"));
    REQUIRE(part.rows.size() == golden_case.at("rows").get<std::size_t>());
    example_maker maker(task, part, golden_case.at("shots"), words, affixes);
    row_hash hash;
    for (std::size_t i = 0; i < part.rows.size(); ++i) {
      auto const example = maker.make(i);
      hash.add(static_cast<std::int64_t>(example.options.size()));
      hash.add(task.kind == task_kind::generation ? 0
                                                  : static_cast<std::int64_t>(part.rows[i].gold));
      hash.add(example.new_tokens);
      for (auto const& option : example.options) {
        hash.add(static_cast<std::int64_t>(option.begin));
        hash.add(static_cast<std::int64_t>(option.ids.size()));
        for (auto const id : option.ids) hash.add(id);
      }
    }
    CHECK(hash.text() == golden_case.at("hash").get<std::string>());
  }
  CHECK(files >= 6);
}

}  // namespace icl_example_test
