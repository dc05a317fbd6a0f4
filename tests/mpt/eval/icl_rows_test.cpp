#include <doctest/doctest.h>

#include <mpt/eval/icl_rows.hpp>
#include <support/text_cases.hpp>

#include "mpt/data/scratch.hpp"

namespace icl_rows_test {

using namespace mpt::eval;

/// Reads a text as the file of a task of some kind; error() removes the folder from messages.
struct task_reader {
  data_test::scratch_folder folder;

  std::map<std::string, task_rows> read(task_kind kind, std::string const& text,
                                        bool categories = false, task_limits limits = {}) {
    data_test::put_file(folder / "t.jsonl", text);
    task_config task;
    task.file = folder / "t.jsonl";
    task.kind = kind;
    task.has_categories = categories;
    return read_task_rows(task, limits);
  }
  std::string error(task_kind kind, std::string const& text, bool categories = false,
                    task_limits limits = {}) {
    auto message =
        data_test::message_of([&] { static_cast<void>(read(kind, text, categories, limits)); });
    auto const name = folder.path().string() + "/";
    for (auto position = message.find(name); position != std::string::npos;
         position = message.find(name))
      message.erase(position, name.size());
    return message;
  }
};

TEST_CASE("task rows: sorted by category, in file order, with texts stripped but not lists") {
  task_reader reader;
  auto const parts =
      reader.read(task_kind::multiple_choice,
                  R"({"query": " a ", "choices": [" x", "y "], "gold": 1, "category": "wet"}

{"query": "b", "choices": ["z"], "gold": 0, "category": "dry", "more": {"id": 3}}
{"query": "c", "choices": ["z"], "gold": 0, "category": "wet"})",
                  true);
  REQUIRE(parts.size() == 2);
  CHECK(parts.begin()->first == "dry");
  auto const& wet = parts.at("wet").rows;
  REQUIRE(wet.size() == 2);
  CHECK(wet[0].context == "a");
  CHECK(wet[0].options == std::vector<std::string>{" x", "y "});
  CHECK(wet[0].gold == 1);
  CHECK(wet[1].line == 4);
  CHECK(parts.at("wet").name.ends_with("t.jsonl (wet)"));
}

TEST_CASE("task rows: answer and aliases are accepted once each, after the chain of thought") {
  task_reader reader;
  auto const parts = reader.read(
      task_kind::generation,
      R"({"context": "q", "answer": "5 ", "aliases": ["five", "5 "], "chain_of_thought": " 2+3. "}
{"context": "q", "answer": "6", "chain_of_thought": ""})");
  auto const& part = parts.at("");
  CHECK(part.has_chain_of_thought);
  CHECK(part.rows[0].options == std::vector<std::string>{"five", "5 "});
  CHECK(part.rows[0].answer == "5");
  CHECK(part.rows[0].chain_of_thought == "2+3.");
  CHECK(part.answer_texts == std::vector<std::string>{" 2+3. five", " 2+3. 5 ", "6"});
}

TEST_CASE("task rows: errors name file and line, the value found and the value expected") {
  task_reader reader;
  using enum task_kind;
  CHECK(reader.error(language_modeling, "\n\n") ==
        "t.jsonl: has no rows; expected one JSON object a line");
  for (auto const& [text, message] :
       test::text_cases("mpt/eval/refused.txt", "task rows, after their kind")) {
    auto const space = text.find(' ');
    for (auto const kind : {language_modeling, multiple_choice, schema})
      if (to_string(kind) == text.substr(0, space))
        CHECK(reader.error(kind, text.substr(space + 1)) == message);
  }
  CHECK(reader.error(language_modeling, "{\"context\": \"a\xff\", \"continuation\": \"b\"}")
            .starts_with("t.jsonl:1: "));
  CHECK(reader.error(language_modeling,
                     "{\"context\": \"a\", \"continuation\": \"b\"}\n{\"context\": \"a\"}", false,
                     {.rows = 1}) == "t.jsonl:2: more than 1 rows");
}

}  // namespace icl_rows_test
