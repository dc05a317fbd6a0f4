// Reports of tasks: LLM Foundry's Markdown tables, its metric names, and JSON.
//
// The evaluation gauntlet: scores of categories, each of several benchmarks, and averages of them.
//
// The score of a benchmark is (accuracy - b) / (1 - b), where b is the accuracy of guessing. The
// score of a category is the weighted mean over its benchmarks; a category has no score if one of
// them was not run. An average is the mean of its categories that have a score, 0 where none has.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/data/gauntlet_config.hpp>
#include <mpt/eval/icl_run.hpp>

namespace mpt::eval {

/// The scores of a gauntlet's categories and averages.
struct gauntlet_result {
  std::vector<std::pair<std::string, double>> averages;
  std::vector<std::pair<std::string, double>> categories;
  /// Categories that have no score, and the first benchmark that each lacks.
  std::vector<std::pair<std::string, std::string>> missing;
};

/// The scores of a gauntlet from the results of the tasks that were run.
[[nodiscard]] gauntlet_result score_gauntlet(gauntlet_config const& config,
                                             std::span<task_result const> tasks);

/// One model's results.
struct model_report {
  std::string model;
  std::vector<task_result> tasks;
  std::optional<gauntlet_result> gauntlet;
};

/// The metrics "metrics/LABEL/N-shot[/CATEGORY]/METRIC" with their values, in order, and those of
/// the gauntlet.
[[nodiscard]] std::vector<std::pair<std::string, double>> metrics_of(model_report const& report);

/// The two tables that LLM Foundry prints; without a gauntlet only the second.
[[nodiscard]] std::string markdown_report(std::vector<model_report> const& models,
                                          gauntlet_config const* gauntlet);

/// A sentence for each task some of whose contexts were longer than its max_seq_len, and the tasks'
/// own notes.
[[nodiscard]] std::vector<std::string> notes_on_tasks(model_report const& report);

/// A model's results as JSON.
[[nodiscard]] nlohmann::ordered_json json_report(model_report const& report);

/// One JSON line per row, for closer inspection: its line, scores, choice or text, and whether it
/// is right.
[[nodiscard]] std::string row_lines(model_report const& report);

}  // namespace mpt::eval
