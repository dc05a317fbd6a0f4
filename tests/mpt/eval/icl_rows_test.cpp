#include <doctest/doctest.h>

#include <mpt/eval/icl_rows.hpp>

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
  CHECK(reader.error(language_modeling, "{\"context\": \"a\", \"continuation\": \"b\"}\n[1]") ==
        "t.jsonl:2: expected a JSON object, found array");
  CHECK(reader.error(language_modeling, R"({"context": 5, "continuation": "b"})") ==
        "t.jsonl:1: \"context\" is of type number, expected a string");
  CHECK(reader.error(multiple_choice, R"({"query": "a", "choices": ["b", 2], "gold": 0})") ==
        "t.jsonl:1: \"choices\" holds number, expected strings");
  CHECK(reader.error(multiple_choice, R"({"query": "a", "choices": [], "gold": 0})") ==
        "t.jsonl:1: \"choices\" is an empty list");
  CHECK(reader.error(multiple_choice, R"({"query": "a", "choices": ["b"], "gold": -1})") ==
        "t.jsonl:1: \"gold\" is -1, expected an index below 1, the number of options");
  CHECK(reader.error(schema, R"({"context_options": ["b"], "gold": "0", "continuation": "c"})") ==
        "t.jsonl:1: \"gold\" is string, expected an index below 1, the number of options");
  CHECK(reader.error(schema, R"({"context_options": ["b"], "gold": 0})") ==
        "t.jsonl:1: the row has no \"continuation\"; its keys are \"context_options\", \"gold\"");
  CHECK(reader.error(language_modeling, "{\"context\": \"a\xff\", \"continuation\": \"b\"}")
            .starts_with("t.jsonl:1: "));
  CHECK(reader.error(language_modeling,
                     "{\"context\": \"a\", \"continuation\": \"b\"}\n{\"context\": \"a\"}", false,
                     {.rows = 1}) == "t.jsonl:2: more than 1 rows");
}

}  // namespace icl_rows_test
