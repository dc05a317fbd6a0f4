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

/// The curve of NAME on the first evaluation set.
curve const* evaluation_curve(run_record const& run, std::string_view name) {
  for (auto const& [metric, points] : run.curves)
    if (metric.starts_with("metrics/eval/") && metric.ends_with(name)) return &points;
  return nullptr;
}

std::string state_of(run_record const& run) {
  if (run.is_complete()) return "complete";
  if (run.programs.empty()) return "unknown";
  if (run.programs.back().is_stopped) return "stopped by a signal";
  return run.start.empty() ? "unknown" : "not ended: running, killed or failed";
}

}  // namespace

run_facts facts_of(run_record const& run) {
  run_facts out;
  auto const& loss = run.find("loss/train/total");
  if (!loss.empty())
    out.batches = loss.batches.back();
  else if (auto const batches = run.summary_number("batches"))
    out.batches = static_cast<std::int64_t>(*batches);
  out.tokens = value_of(last_of(run.find("time/token")));
  if (!out.tokens) out.tokens = run.summary_number("tokens");
  out.loss = last_of(loss);
  out.lowest_loss = lowest_of(loss);
  if (auto const* points = evaluation_curve(run, "LanguageCrossEntropy")) {
    out.evaluation = last_of(*points);
    out.lowest_evaluation = lowest_of(*points);
  }
  if (auto const* points = evaluation_curve(run, "TokenAccuracy"))
    out.accuracy = value_of(last_of(*points));
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
  out.state = state_of(run);
  return out;
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
  auto const grouped = [](double v) { return console::grouped(static_cast<std::int64_t>(v)); };
  std::string verdict = "–";
  if (row.is_object() && row.contains("conversion_inference_evaluation_ok") &&
      row["conversion_inference_evaluation_ok"].is_boolean())
    verdict = row["conversion_inference_evaluation_ok"] == true ? "yes" : "no";
  auto nodes = detail::find_number(row, "nodes");
  if (!nodes) nodes = detail::find_number(run.start, "nodes");
  auto accuracy = detail::find_number(row, "evaluation_accuracy");
  if (!accuracy) accuracy = facts.accuracy;
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
          number(accuracy, [](double v) { return fmt::format("{:.4f}", v); })};
}

}  // namespace mpt::report
