#include <doctest/doctest.h>

#include <mpt/config/data/read_icl_tasks.hpp>
#include <mpt/yaml/document.hpp>
#include <support/text_cases.hpp>

#include "mpt/data/scratch.hpp"

namespace read_icl_tasks_test {

using namespace mpt::eval;

/// Reads the YAML of a task list, as from a file two folders below the folder of the task's data.
std::vector<task_config> read(std::string const& yaml, mpt::config_report* report = nullptr) {
  data_test::scratch_folder folder;
  std::filesystem::create_directories(folder / "a/b");
  std::filesystem::create_directories(folder / "data");
  data_test::put_file(folder / "data/t.jsonl", "{}");
  mpt::config_report default_report;
  auto const document = mpt::make_document(yaml, "tasks.yaml");
  mpt::config_reader reader(document, "", report != nullptr ? *report : default_report);
  return read_icl_tasks(reader,
                        {.file = folder / "a/b/tasks.yaml", .batch_size = 4, .max_seq_len = 64});
}

std::string error(std::string const& yaml) {
  auto message = data_test::message_of([&] { static_cast<void>(read(yaml)); });
  return message;
}

std::string task(std::string const& settings) {
  return "icl_tasks:\n- label: one\n  dataset_uri: data/t.jsonl\n" + settings;
}

TEST_CASE("task lists: names and defaults are LLM Foundry's, and a file is found above the YAML") {
  auto const tasks = read(task("  num_fewshot: [0, 5]\n  icl_task_type: multiple_choice\n"));
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].kind == task_kind::multiple_choice);
  CHECK(tasks[0].shots == std::vector<std::int64_t>{0, 5});
  CHECK(tasks[0].continuation_delimiter == " ");
  CHECK(tasks[0].example_delimiter == "\n");
  CHECK(tasks[0].seed == 1234);
  CHECK(tasks[0].batch_size == 4);
  CHECK(tasks[0].max_seq_len == 64);
  CHECK(tasks[0].file.filename() == "t.jsonl");

  auto const generation = read(task(R"(  num_fewshot: 3
  icl_task_type: generation_task_with_answers
  metric_names: [InContextLearningGenerationExactMatchAccuracy]
  prompt_string: "Say: "
  example_delimiter: "\n\n"
  continuation_delimiter: "\nA:"
  question_prelimiter: "Q: "
  cot_delimiter: "So "
  early_stopping_criteria: ["\n\n", "Q:"]
  do_normalization: false
  has_categories: true
  fewshot_random_seed: 7
  batch_size: 2
  max_seq_len: 32
)"))[0];
  CHECK(generation.prompt_string == "Say: ");
  CHECK(generation.example_delimiter == "\n\n");
  CHECK(generation.continuation_delimiter == "\nA:");
  CHECK(generation.question_prelimiter == "Q: ");
  CHECK(generation.cot_delimiter == "So ");
  CHECK(generation.stops == std::vector<std::string>{"\n\n", "Q:"});
  CHECK_FALSE(generation.do_normalization);
  CHECK(generation.has_categories);
  CHECK(generation.seed == 7);
  CHECK(generation.max_seq_len == 32);
}

TEST_CASE("task lists: keys without effect on a kind of task are listed") {
  mpt::config_report report;
  static_cast<void>(
      read(task("  num_fewshot: [0]\n  icl_task_type: schema\n  cot_delimiter: x\n"), &report));
  REQUIRE(report.ignored.size() == 1);
  CHECK(report.ignored[0].name == "icl_tasks.0.cot_delimiter");
}

TEST_CASE("task lists: an error is one sentence with its location") {
  CHECK(error("icl_tasks: {}\n") ==
        "tasks.yaml:1:12: icl_tasks: expected a list of tasks, found a mapping");
  for (auto const& example : test::text_cases("mpt/eval/refused.txt", "settings of a task")) {
    std::string settings;
    for (auto const& line : example.lines()) settings += "  " + line + "\n";
    CHECK(error(task(settings)) == example.expected);
  }
  CHECK(error("icl_tasks:\n- label: one\n  dataset_uri: hf://some/where\n") ==
        "tasks.yaml:3:16: icl_tasks.0.dataset_uri: 'hf://some/where' is not on this machine; "
        "download it and give its path");
  CHECK(error("icl_tasks:\n- label: one\n  dataset_uri: data/none.jsonl\n")
            .starts_with("tasks.yaml:3:16: icl_tasks.0.dataset_uri: there is no file "
                         "'data/none.jsonl' here, nor in "));
  auto const settings = "  num_fewshot: [0]\n  icl_task_type: schema\n";
  CHECK(error(task(settings) + "- label: one\n  dataset_uri: data/t.jsonl\n" + settings) ==
        "tasks.yaml:6:3: icl_tasks.1: a second task with the label 'one'; give it another, or "
        "list its numbers of examples together");
}

}  // namespace read_icl_tasks_test
