#include <doctest/doctest.h>

#include <mpt/eval/icl_report.hpp>

namespace icl_report_test {

using namespace mpt::eval;

model_report example() {
  model_report out{.model = "m", .tasks = {}, .gauntlet = std::nullopt};
  task_result copa{.label = "copa", .kind = task_kind::multiple_choice, .shots = 0};
  copa.parts.push_back({"",
                        {{.line = 1, .is_correct = true, .losses = {1.5, 2}, .chosen = 0},
                         {.line = 2, .is_correct = false, .losses = {3, 2}, .chosen = 1}}});
  task_result quiz{.label = "quiz", .kind = task_kind::generation, .shots = 3};
  quiz.parts.push_back({"art", {{.line = 2, .is_correct = true, .output = "é"}}});
  quiz.parts.push_back({"law", {{.line = 1, .is_correct = false, .output = ""}}});
  out.tasks = {copa, quiz};
  return out;
}

TEST_CASE("task report: metrics have LLM Foundry's names") {
  auto report = example();
  report.gauntlet =
      gauntlet_result{.averages = {{"core", 0.5}}, .categories = {{"c", 0.25}}, .missing = {}};
  using named_scores = std::vector<std::pair<std::string, double>>;
  CHECK(metrics_of(report) ==
        named_scores{{"metrics/copa/0-shot/InContextLearningMultipleChoiceAccuracy", 0.5},
                     {"metrics/quiz/3-shot/art/InContextLearningGenerationExactMatchAccuracy", 1.0},
                     {"metrics/quiz/3-shot/law/InContextLearningGenerationExactMatchAccuracy", 0.0},
                     {"icl/metrics/eval_gauntlet/c", 0.25},
                     {"icl/metrics/eval_gauntlet/core", 0.5}});
}

TEST_CASE("task report: the tables equal those that LLM Foundry prints") {
  CHECK(markdown_report({example()}, nullptr) ==
        R"(| Category | Benchmark | Subtask | Accuracy | Number few shot | Model |
|:---------|:----------|:--------|---------:|:----------------|:------|
|          | copa      |         |      0.5 | 0-shot          | m     |
|          | quiz      | Average |      0.5 | 3-shot          | m     |
|          |           | art     |        1 | 3-shot          | m     |
|          |           | law     |        0 | 3-shot          | m     |
)");
  gauntlet_config gauntlet;
  gauntlet.categories = {{"choices", {{"copa", 0, 0.5}}}, {"more", {{"none", 0, 0}}}};
  gauntlet.averages = {{"core", {"choices", "more"}}};
  auto low = example();
  low.gauntlet = score_gauntlet(gauntlet, low.tasks);
  auto high = low;
  high.model = "better";
  high.gauntlet->averages[0].second = 1;
  auto const text = markdown_report({low, high}, &gauntlet);
  CHECK(text.starts_with(R"(| model_name | core | choices | more |
|:-----------|-----:|--------:|-----:|
| better     |    1 |       0 |  nan |
| m          |    0 |       0 |  nan |

| Category )"));
  CHECK(text.find("| choices  | copa ") != std::string::npos);
}

TEST_CASE(
    "task report: JSON has scores by task and category, and each line of row_lines is one row") {
  auto const json = json_report(example());
  CHECK(json.at("icl_tasks").at(1).at("categories").at("art").at("accuracy") == 1.0);
  CHECK(json.at("icl_tasks").at(0).at("accuracy") == 0.5);
  CHECK(json.at("icl_tasks").at(0).at("rows") == 2);
  CHECK(json.at("icl_tasks").at(0).at("cut_contexts") == 0);
  CHECK(json.at("metrics").size() == 3);
  auto const lines = row_lines(example());
  CHECK(lines.starts_with(R"({"model":"m","task":"copa","num_fewshot":0,"category":"","line":1,)"
                          R"("correct":true,"losses":[1.5,2.0],"chosen":0})"));
  CHECK(lines.find(R"("line":2,"correct":true,"output":"é"})") != std::string::npos);
}

TEST_CASE("task report: a note counts the cut contexts of a task and is absent without any") {
  auto report = example();
  CHECK(notes_on_tasks(report).empty());
  CHECK(row_lines(report).find("context_cut") == std::string::npos);
  report.tasks[1].max_seq_len = 64;
  report.tasks[1].parts[1].rows[0].is_cut = true;
  CHECK(notes_on_tasks(report) ==
        std::vector<std::string>{"quiz, 3-shot: the contexts of 1 of 2 rows lost their beginning, "
                                 "as they are longer than max_seq_len 64 has room for"});
  CHECK(json_report(report).at("icl_tasks").at(1).at("cut_contexts") == 1);
  report.tasks[1].notes = {"a note"};
  CHECK(notes_on_tasks(report).front() == "quiz, 3-shot: a note");
  CHECK(row_lines(report).find(R"("output":"","context_cut":true})") != std::string::npos);
}

}  // namespace icl_report_test
