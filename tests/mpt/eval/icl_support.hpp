// The golden file of in-context-learning tasks (tests/reference/make_icl_golden.py), for the tests
// of this folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <mpt/eval/icl_example.hpp>
#include <nlohmann/json.hpp>

#include "support/checkout.hpp"

namespace icl_test {

inline std::filesystem::path folder() { return test::checkout() / "tests/golden/icl"; }

inline nlohmann::json load(char const* name = "golden.json") {
  std::ifstream file(folder() / name);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

inline mpt::eval::task_kind kind_of(std::string const& name) {
  using mpt::eval::task_kind;
  for (auto const kind : {task_kind::language_modeling, task_kind::multiple_choice,
                          task_kind::schema, task_kind::generation})
    if (mpt::eval::to_string(kind) == name) return kind;
  throw std::runtime_error("no kind " + name);
}

/// The task of a golden case.
inline mpt::eval::task_config task_of(nlohmann::json const& golden, std::filesystem::path file) {
  mpt::eval::task_config task;
  auto const& options = golden.at("options");
  task.label = golden.at("file");
  task.file = std::move(file);
  task.kind = kind_of(golden.at("kind"));
  task.prompt_string = options.value("prompt_string", task.prompt_string);
  task.example_delimiter = options.value("example_delimiter", task.example_delimiter);
  task.continuation_delimiter =
      options.value("continuation_delimiter", task.continuation_delimiter);
  task.question_prelimiter = options.value("prelimiter", task.question_prelimiter);
  task.cot_delimiter = options.value("cot_delimiter", task.cot_delimiter);
  task.seed = options.value("fewshot_random_seed", task.seed);
  task.max_seq_len = options.value("max_seq_len", task.max_seq_len);
  task.has_categories =
      options.value("categories", false) || !golden.at("category").get<std::string>().empty();
  return task;
}

}  // namespace icl_test
