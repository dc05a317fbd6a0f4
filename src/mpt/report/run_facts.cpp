#include <mpt/report/run_facts.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/detail/json_values.hpp>

namespace mpt::report {

std::optional<double> value_of(std::optional<batch_value> const& found) {
  if (!found) return std::nullopt;
  return found->value;
}

namespace {

std::optional<batch_value> last_of(curve const& points) {
  if (points.empty()) return std::nullopt;
  return batch_value{points.batches.back(), points.values.back()};
}

std::optional<batch_value> lowest_of(curve const& points) {
  std::optional<batch_value> out;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (std::isfinite(points.values[i]) && (!out || points.values[i] < out->value))
      out = batch_value{points.batches[i], points.values[i]};
  return out;
}

constexpr std::string_view evaluation_prefix = "metrics/eval/";
constexpr std::string_view evaluation_loss = "LanguageCrossEntropy";

/// The name of a number that is logged of the evaluation set `label`.
std::string metric_of(std::string const& label, std::string_view name) {
  return fmt::format("{}{}{}{}", evaluation_prefix, label, label.empty() ? "" : "/", name);
}

std::vector<set_evaluation> evaluations_of(run_record const& run) {
  std::vector<set_evaluation> out;
  for (auto const& label : evaluation_labels(run)) {
    auto const& loss = run.find(metric_of(label, evaluation_loss));
    out.push_back({.label = label,
                   .loss = last_of(loss),
                   .lowest_loss = lowest_of(loss),
                   .accuracy = value_of(last_of(run.find(metric_of(label, "TokenAccuracy"))))});
  }
  return out;
}

}  // namespace

std::string state_of(run_record const& run, run_program const& program) {
  if (program.is_stopped) return "stopped by a signal";
  if (program.is_ended) return "complete";
  if (!program.failure.empty()) return "failed";
  if (&program != &run.programs.back()) return "killed or failed";
  switch (run.writer) {
    case writer_state::alive: return "running";
    case writer_state::silent: return "killed";
    case writer_state::ended: return "failed";
    case writer_state::unknown: break;
  }
  return run.start.empty() ? "unknown" : "not ended";
}

std::vector<std::string> evaluation_labels(run_record const& run) {
  std::vector<std::string> logged;
  for (auto const& [metric, points] : run.curves) {
    if (!metric.starts_with(evaluation_prefix) || !metric.ends_with(evaluation_loss)) continue;
    auto label = metric.substr(evaluation_prefix.size(),
                               metric.size() - evaluation_prefix.size() - evaluation_loss.size());
    if (label.ends_with('/')) label.pop_back();
    logged.push_back(std::move(label));
  }
  std::vector<std::string> ordered;
  auto const keys = run.start.find("configuration");
  if (keys != run.start.end())
    for (std::size_t i = 0; keys->contains(fmt::format("eval_loader.{}.label", i)); ++i)
      ordered.push_back(detail::text_at(*keys, fmt::format("eval_loader.{}.label", i).c_str()));
  // the summary of a run tells its first set
  if (auto const last = run.summary.find("evaluation"); last != run.summary.end())
    ordered.push_back(detail::text_at(*last, "label"));
  auto const position = [&](std::string const& label) {
    return std::ranges::find(ordered, label) - ordered.begin();
  };
  std::ranges::stable_sort(logged, {}, position);
  return logged;
}

run_facts facts_of(run_record const& run) {
  run_facts out;
  auto const& loss = run.find("loss/train/total");
  if (!loss.empty())
    out.batches = loss.batches.back();
  else if (run.summary_number("batches"))
    out.batches = detail::count_at(run.summary, "batches");
  out.tokens = value_of(last_of(run.find("time/token")));
  if (!out.tokens) out.tokens = run.summary_number("tokens");
  out.loss = last_of(loss);
  out.lowest_loss = lowest_of(loss);
  out.evaluations = evaluations_of(run);
  if (!out.evaluations.empty()) out.evaluation = out.evaluations.front();
  out.tokens_per_second = run.summary_number("tokens_per_second");
  if (!out.tokens_per_second)
    out.tokens_per_second = value_of(last_of(run.find("throughput/tokens_per_sec")));
  out.mfu = run.summary_number("mfu");
  if (!out.mfu) out.mfu = value_of(last_of(run.find("throughput/device/mfu")));
  out.memory_bytes = run.summary_number("device_memory_bytes");
  if (auto const peak = last_of(run.find("memory/peak_allocated_mem")); !out.memory_bytes && peak)
    out.memory_bytes = peak->value * 1e9;
  if (auto const ranks = run.summary.find("device_memory_by_rank");
      ranks != run.summary.end() && ranks->is_array())
    for (auto const& bytes : *ranks)
      if (bytes.is_number()) out.memory_by_rank.push_back(bytes.get<double>());
  auto const spent = run.spent();
  if (spent.total() > 0) {
    out.wall_clock = spent.total();
    out.goodput = spent.goodput();
  } else if (auto const seconds = run.summary_number("wall_clock_seconds")) {
    out.wall_clock = seconds;
    out.goodput = run.summary_number("goodput");
  }
  out.state = run.programs.empty() ? "unknown" : state_of(run, run.programs.back());
  return out;
}

bool compare_by_common_set(std::vector<run_facts*> const& runs) {
  std::vector<run_facts*> evaluated;
  for (auto* const run : runs)
    if (!run->evaluations.empty()) evaluated.push_back(run);
  if (evaluated.empty()) return true;
  auto const find = [](run_facts const& run, std::string const& label) {
    return std::ranges::find(run.evaluations, label, &set_evaluation::label);
  };
  for (auto const& candidate : evaluated.front()->evaluations) {
    auto const label = candidate.label;
    if (!std::ranges::all_of(evaluated, [&](run_facts const* run) {
          return find(*run, label) != run->evaluations.end();
        }))
      continue;
    for (auto* const run : evaluated) run->evaluation = *find(*run, label);
    return true;
  }
  return false;
}

std::vector<std::string> table_titles() {
  return {"model",
          "batches",
          "evaluated every",
          "nodes",
          "wall-clock s",
          "tokens/s",
          "MFU",
          "GiB per device",
          "checkpoint",
          "convert, infer, evaluate",
          "evaluation accuracy"};
}

std::vector<std::string> table_cells(run_record const& run, run_facts const& facts) {
  auto const found = run.summary.find("table_row");
  auto const row = found == run.summary.end() ? nlohmann::ordered_json::object() : *found;
  auto const text = [&](char const* key) {
    bool const is_text = row.is_object() && row.contains(key) && row[key].is_string();
    return is_text ? row[key].get<std::string>() : std::string("–");
  };
  auto const number = [](std::optional<double> const& value, auto const& format) {
    return value ? format(*value) : std::string("–");
  };
  auto const grouped = [](double v) {
    bool const is_countable = v >= 0 && v < 1e15;
    return is_countable ? console::grouped(static_cast<std::int64_t>(v)) : fmt::format("{:.4g}", v);
  };
  std::string verdict = "–";
  if (row.is_object() && row.contains("conversion_inference_evaluation_ok") &&
      row["conversion_inference_evaluation_ok"].is_boolean())
    verdict = row["conversion_inference_evaluation_ok"] == true ? "yes" : "no";
  auto nodes = detail::find_number(row, "nodes");
  if (!nodes) nodes = detail::find_number(run.start, "nodes");
  // of the same set as the loss, which is the first one's where the row is the run's own
  auto accuracy = facts.evaluation.accuracy;
  if (!accuracy) accuracy = detail::find_number(row, "evaluation_accuracy");
  auto const set = facts.evaluations.size() > 1 ? fmt::format(" ({})", facts.evaluation.label) : "";
  return {text("model"),
          facts.batches ? console::grouped(*facts.batches) : "–",
          text("evaluated_every"),
          number(nodes, grouped),
          number(facts.wall_clock, [](double v) { return fmt::format("{:.1f}", v); }),
          number(facts.tokens_per_second, grouped),
          number(facts.mfu, [](double v) { return fmt::format("{:.3f}", v); }),
          number(facts.memory_bytes, [](double v) { return fmt::format("{:.3g}", v / 0x1p30); }),
          number(detail::find_number(row, "checkpoint_bytes"),
                 [](double v) { return console::bytes(v); }),
          verdict,
          number(accuracy, [&](double v) { return fmt::format("{:.4f}{}", v, set); })};
}

}  // namespace mpt::report
