#include <doctest/doctest.h>

#include <mpt/eval/icl_example.hpp>

#include "mpt/eval/icl_support.hpp"
#include "support/data.hpp"

namespace icl_example_test {

using namespace mpt::icl;

TEST_CASE("every row of every kind is LLM Foundry's, text for text and id for id") {
  auto const golden = icl_test::load();
  std::size_t rows = 0;
  for (auto const& one : golden.at("cases")) {
    auto const task =
        icl_test::task_of(one, icl_test::folder() / (one.at("file").get<std::string>() + ".jsonl"));
    CAPTURE(one.at("kind").get<std::string>());
    CAPTURE(one.at("shots").get<int>());
    auto const words = mpt::tokenizer::load(
        icl_test::folder() / ("tokenizer_" + one.at("tokenizer").get<std::string>()));
    auto const parts = read_task_rows(task);
    auto const& part = parts.at(one.at("category"));
    REQUIRE(part.rows.size() == one.at("rows").size());
    example_maker maker(task, part, one.at("shots"), words, mpt::read_text_affixes(words));
    auto const draws = draw_all_examples(part.rows.size(), one.at("shots"), task.seed);
    for (std::size_t i = 0; i < part.rows.size(); ++i, ++rows) {
      CAPTURE(i);
      if (!one.at("texts").empty()) {
        auto const& texts = one.at("texts").at(i);
        auto const preamble = preamble_text(task, part, draws[i]);
        CHECK(preamble == texts.at(0).get<std::string>());
        auto const questions = question_texts(task, part.rows[i], preamble.empty());
        auto const expected = texts.at(1).is_array() ? texts.at(1).get<std::vector<std::string>>()
                                                     : std::vector{texts.at(1).get<std::string>()};
        REQUIRE(questions.size() == expected.size());
        for (std::size_t q = 0; q < questions.size(); ++q)
          CHECK(rstrip(questions[q]) == rstrip(expected[q]));
      }
      auto const& expected = one.at("rows").at(i);
      auto const found = maker.make(i);
      REQUIRE(found.options.size() == expected.at("options").size());
      CHECK(found.new_tokens == expected.at("new_tokens").get<std::int64_t>());
      CHECK(part.rows[i].gold * (task.kind != task_kind::generation) ==
            expected.at("gold").get<std::size_t>());
      for (std::size_t o = 0; o < found.options.size(); ++o) {
        CHECK(found.options[o].ids ==
              expected.at("options").at(o).at(0).get<std::vector<std::int32_t>>());
        CHECK(found.options[o].begin == expected.at("options").at(o).at(1).get<std::size_t>());
      }
    }
  }
  CHECK(rows > 150);
}

/// As make_icl_golden.py's row_hash.
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

TEST_CASE("all rows of LLM Foundry's own task files are its own") {
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
  for (auto const& one : icl_test::load("foundry_hashes.json")) {
    auto const task =
        icl_test::task_of(one, data / "eval/local_data" / one.at("file").get<std::string>());
    CAPTURE(task.label);
    CAPTURE(one.at("category").get<std::string>());
    if (file != task.label) {
      file = task.label;
      parts = read_task_rows(task);
      ++files;
    }
    auto const& part = parts.at(one.at("category"));
    REQUIRE(part.rows.size() == one.at("rows").get<std::size_t>());
    example_maker maker(task, part, one.at("shots"), words, affixes);
    row_hash hash;
    for (std::size_t i = 0; i < part.rows.size(); ++i) {
      auto const made = maker.make(i);
      hash.add(static_cast<std::int64_t>(made.options.size()));
      hash.add(task.kind == task_kind::generation ? 0
                                                  : static_cast<std::int64_t>(part.rows[i].gold));
      hash.add(made.new_tokens);
      for (auto const& option : made.options) {
        hash.add(static_cast<std::int64_t>(option.begin));
        hash.add(static_cast<std::int64_t>(option.ids.size()));
        for (auto const id : option.ids) hash.add(id);
      }
    }
    CHECK(hash.text() == one.at("hash").get<std::string>());
  }
  CHECK(files >= 6);
}

}  // namespace icl_example_test
