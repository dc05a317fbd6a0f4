#include <mpt/eval/icl_report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include <mpt/console/table.hpp>

namespace mpt::eval {

std::vector<std::pair<std::string, double>> metrics_of(model_report const& report) {
  std::vector<std::pair<std::string, double>> out;
  for (auto const& task : report.tasks)
    for (auto const& part : task.parts)
      out.emplace_back(
          fmt::format("metrics/{}/{}-shot/{}{}{}", task.label, task.shots, part.category,
                      part.category.empty() ? "" : "/", metric_of(task.kind)),
          part.accuracy());
  if (report.gauntlet)
    for (auto const* const scores : {&report.gauntlet->categories, &report.gauntlet->averages})
      for (auto const& [name, score] : *scores)
        out.emplace_back("icl/metrics/eval_gauntlet/" + name, score);
  return out;
}

std::string markdown_report(std::vector<model_report> const& models,
                            gauntlet_config const* gauntlet) {
  std::string out;
  if (gauntlet != nullptr) {
    std::vector<std::vector<std::string>> rows{{"model_name"}};
    for (auto const& [name, categories] : gauntlet->averages) rows[0].push_back(name);
    for (auto const& category : gauntlet->categories) rows[0].push_back(category.name);
    std::vector<model_report const*> order;
    for (auto const& model : models) order.push_back(&model);
    std::ranges::stable_sort(order, [](model_report const* a, model_report const* b) {
      return a->gauntlet->averages.at(0).second > b->gauntlet->averages.at(0).second;
    });
    for (auto const* const model : order) {
      std::vector<std::string> row{model->model};
      for (std::size_t i = 1; i < rows[0].size(); ++i) {
        std::string cell = "nan";  // LLM Foundry's text for a missing score
        for (auto const* const scores : {&model->gauntlet->averages, &model->gauntlet->categories})
          for (auto const& [name, score] : *scores)
            if (name == rows[0][i]) cell = fmt::format("{:.6g}", score);
        row.push_back(cell);
      }
      rows.push_back(std::move(row));
    }
    std::vector<bool> is_right_aligned(rows[0].size(), true);
    is_right_aligned[0] = false;
    out += console::markdown_table(rows, is_right_aligned) + "\n";
  }
  std::vector<std::vector<std::string>> rows{
      {"Category", "Benchmark", "Subtask", "Accuracy", "Number few shot", "Model"}};
  for (auto const& model : models)
    for (auto const& task : model.tasks) {
      std::string category;
      if (gauntlet != nullptr)
        for (auto const& entry : gauntlet->categories)
          if (std::ranges::find(entry.benchmarks, task.label, &gauntlet_benchmark::name) !=
              entry.benchmarks.end())
            category = entry.name;
      auto const shots = fmt::format("{}-shot", task.shots);
      bool const is_single = task.parts.size() == 1;
      rows.push_back({category, task.label, is_single ? "" : "Average",
                      fmt::format("{:.6g}", task.accuracy()), shots, model.model});
      if (is_single) continue;
      for (auto const& part : task.parts)
        rows.push_back({category, "", part.category, fmt::format("{:.6g}", part.accuracy()), shots,
                        model.model});
    }
  return out + console::markdown_table(rows, {false, false, false, true, false, false});
}

std::vector<std::string> notes_on_tasks(model_report const& report) {
  std::vector<std::string> out;
  for (auto const& task : report.tasks) {
    auto notes = task.notes;
    if (auto const cut = task.cut_contexts(); cut > 0)
      notes.push_back(fmt::format(
          "the contexts of {} of {} rows lost their beginning, as they are longer than max_seq_len "
          "{} has room for",
          cut, task.rows(), task.max_seq_len));
    for (auto const& note : notes)
      out.push_back(fmt::format("{}, {}-shot: {}", task.label, task.shots, note));
  }
  return out;
}

nlohmann::ordered_json json_report(model_report const& report) {
  nlohmann::ordered_json out{{"model", report.model}};
  auto& tasks = out["icl_tasks"] = nlohmann::ordered_json::array();
  for (auto const& task : report.tasks) {
    nlohmann::ordered_json entry{{"label", task.label},
                                 {"icl_task_type", to_string(task.kind)},
                                 {"num_fewshot", task.shots},
                                 {"metric", metric_of(task.kind)},
                                 {"accuracy", task.accuracy()},
                                 {"rows", task.rows()},
                                 {"cut_contexts", task.cut_contexts()}};
    if (task.parts.size() > 1)
      for (auto const& part : task.parts)
        entry["categories"][part.category] = {{"accuracy", part.accuracy()},
                                              {"rows", part.rows.size()}};
    tasks.push_back(std::move(entry));
  }
  for (auto const& [name, value] : metrics_of(report)) out["metrics"][name] = value;
  if (report.gauntlet)
    for (auto const& [category, benchmark] : report.gauntlet->missing)
      out["gauntlet_missing"][category] = benchmark;
  return out;
}

std::string row_lines(model_report const& report) {
  std::string out;
  for (auto const& task : report.tasks)
    for (auto const& part : task.parts)
      for (auto const& row : part.rows) {
        nlohmann::ordered_json entry{{"model", report.model},     {"task", task.label},
                                     {"num_fewshot", task.shots}, {"category", part.category},
                                     {"line", row.line},          {"correct", row.is_correct}};
        if (task.kind == task_kind::generation) {
          entry["output"] = row.output;
        } else {
          entry["losses"] = row.losses;
          entry["chosen"] = row.chosen;
        }
        if (row.is_cut) entry["context_cut"] = true;
        out += entry.dump() + "\n";
      }
  return out;
}

gauntlet_result score_gauntlet(gauntlet_config const& config, std::span<task_result const> tasks) {
  gauntlet_result out;
  for (auto const& category : config.categories) {
    double sum = 0, weights = 0;
    std::string missing;
    for (auto const& benchmark : category.benchmarks) {
      auto const task = std::ranges::find_if(tasks, [&](task_result const& result) {
        return result.label == benchmark.name && result.shots == benchmark.shots;
      });
      if (task == tasks.end()) {
        missing = parallel::concat(benchmark.name, "/", benchmark.shots, "-shot");
        break;
      }
      double score = task->accuracy();
      if (config.subtract_random_baseline) score -= benchmark.random_baseline;
      if (config.rescale_accuracy) score /= 1 - benchmark.random_baseline;
      double weight = 1;
      if (config.weighting != gauntlet_weighting::equal)
        weight = static_cast<double>(std::max<std::size_t>(task->rows(), 1));
      if (config.weighting == gauntlet_weighting::log_samples)
        weight = std::max(std::log2(weight), 1.0);
      sum += score * weight;
      weights += weight;
    }
    if (missing.empty())
      out.categories.emplace_back(category.name, sum / weights);
    else
      out.missing.emplace_back(category.name, missing);
  }
  for (auto const& [name, members] : config.averages) {
    double sum = 0;
    int count = 0;
    for (auto const& [category, score] : out.categories)
      if (std::ranges::find(members, category) != members.end()) {
        sum += score;
        ++count;
      }
    out.averages.emplace_back(name, count > 0 ? sum / count : 0.0);
  }
  return out;
}

}  // namespace mpt::eval
