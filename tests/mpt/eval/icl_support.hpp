// The golden files of in-context learning (tests/golden/icl): tasks, tokenizers, and what LLM
// Foundry makes of them (tests/reference/make_icl_golden.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <mpt/eval/icl_example.hpp>

#include "support/checkout.hpp"

namespace icl_test {

/// The folder of the golden files.
inline std::filesystem::path folder() { return test::checkout() / "tests/golden/icl"; }

/// The content of a golden file.
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
  throw std::runtime_error("no kind of task is called " + name);
}

/// The task of a case, an entry of "cases" in golden.json or of foundry_hashes.json; `file` has its
/// examples.
inline mpt::eval::task_config task_of(nlohmann::json const& golden_case,
                                      std::filesystem::path file) {
  mpt::eval::task_config task;
  auto const& options = golden_case.at("options");
  task.label = golden_case.at("file");
  task.file = std::move(file);
  task.kind = kind_of(golden_case.at("kind"));
  task.prompt_string = options.value("prompt_string", task.prompt_string);
  task.example_delimiter = options.value("example_delimiter", task.example_delimiter);
  task.continuation_delimiter =
      options.value("continuation_delimiter", task.continuation_delimiter);
  task.question_prelimiter = options.value("prelimiter", task.question_prelimiter);
  task.cot_delimiter = options.value("cot_delimiter", task.cot_delimiter);
  task.seed = options.value("fewshot_random_seed", task.seed);
  task.max_seq_len = options.value("max_seq_len", task.max_seq_len);
  task.has_categories =
      options.value("categories", false) || !golden_case.at("category").get<std::string>().empty();
  return task;
}

}  // namespace icl_test
