#include <mpt/report/charts.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/format.hpp>

namespace mpt::report {

namespace {

/// The label of a logged number in a chart; "": the number does not belong there.
using label_rule = std::function<std::string(std::string_view metric)>;

struct chart_rule {
  chart shown;
  label_rule label;
};

/// "metrics/eval/LABEL/NAME" → "evaluation LABEL", for that NAME.
std::string evaluation_label(std::string_view metric, std::string_view name) {
  constexpr std::string_view prefix = "metrics/eval/";
  if (!metric.starts_with(prefix) || !metric.ends_with(name)) return "";
  metric.remove_prefix(prefix.size());
  metric.remove_suffix(name.size());
  if (metric.ends_with('/')) metric.remove_suffix(1);
  return metric.empty() ? "evaluation" : fmt::format("evaluation {}", metric);
}

/// A rule with one label for each of some numbers.
label_rule labels(std::vector<std::pair<std::string_view, std::string_view>> names) {
  return [names = std::move(names)](std::string_view metric) -> std::string {
    for (auto const& [name, label] : names)
      if (metric == name) return std::string(label);
    return "";
  };
}

std::string loss_label(std::string_view metric) {
  return metric == "loss/train/total" ? "training"
                                      : evaluation_label(metric, "LanguageCrossEntropy");
}

std::string accuracy_label(std::string_view metric) {
  return metric == "metrics/train/TokenAccuracy" ? "training"
                                                 : evaluation_label(metric, "TokenAccuracy");
}

std::string task_label(std::string_view metric) {
  constexpr std::string_view prefix = "metrics/";
  if (!metric.starts_with(prefix) || metric.starts_with("metrics/train/") ||
      metric.starts_with("metrics/eval/"))
    return "";
  metric.remove_prefix(prefix.size());
  if (auto const kind = metric.find("/InContextLearning"); kind != metric.npos)
    metric = metric.substr(0, kind);
  return std::string(metric);
}

std::string rate_label(std::string_view metric) {
  constexpr std::string_view prefix = "lr-";
  return metric.starts_with(prefix) ? std::string(metric.substr(prefix.size())) : "";
}

std::vector<chart_rule> rules() {
  using enum value_unit;
  return {
      {{.id = "loss",
        .title = "Loss",
        .explanation = "Cross entropy, mean of a token",
        .is_noisy = true,
        .takes_logarithm = true,
        .series = {}},
       loss_label},
      {{.id = "accuracy",
        .title = "Token accuracy",
        .explanation = "Share of tokens that are the most likely one",
        .unit = share,
        .is_noisy = true,
        .series = {}},
       accuracy_label},
      {{.id = "tasks",
        .title = "Tasks",
        .explanation = "Scores of in-context tasks",
        .unit = share,
        .series = {}},
       task_label},
      {{.id = "gradient",
        .title = "Gradient norm",
        .explanation = "Of the mean loss, before clipping",
        .is_noisy = true,
        .takes_logarithm = true,
        .series = {}},
       labels({{"l2_norm/grad/before_clipping", "before clipping"}})},
      {{.id = "rate",
        .title = "Learning rate",
        .explanation = "By group of parameters",
        .series = {}},
       rate_label},
      {{.id = "speed",
        .title = "Tokens per second",
        .explanation = "All ranks together, over the last batches",
        .unit = count,
        .series = {}},
       labels({{"throughput/tokens_per_sec", "tokens"},
               {"throughput/trained_tokens_per_sec", "tokens with a label"}})},
      {{.id = "mfu",
        .title = "Utilisation (MFU)",
        .explanation = "Share of the devices' peak rate that the model needs",
        .unit = share,
        .series = {}},
       labels({{"throughput/device/mfu", "MFU"}, {"throughput/device/mfu_causal", "MFU, causal"}})},
      {{.id = "memory", .title = "Memory", .explanation = "GB (10⁹ bytes) of rank 0", .series = {}},
       labels({{"memory/peak_allocated_mem", "device, peak"},
               {"memory/current_allocated_mem", "device"},
               {"memory/peak_resident_gb", "process, peak"}})},
      {{.id = "data",
        .title = "Waiting for data",
        .explanation = "Share of the last batches' time on rank 0",
        .unit = share,
        .series = {}},
       labels({{"time/data_wait_share", "waiting"}})},
  };
}

/// Whether a chart tells anything: runs that hardly wait for data need no chart of it.
bool is_worth_showing(chart const& shown) {
  constexpr double noticeable_share = 0.02;
  return shown.id != "data" || std::ranges::any_of(shown.series, [](chart_series const& series) {
           auto const& values = series.points.values;
           auto const count =
               std::ranges::count_if(values, [](double v) { return v >= noticeable_share; });
           return 50 * static_cast<std::size_t>(count) > values.size();
         });
}

}  // namespace

std::vector<chart> charts_of(std::vector<run_record> const& runs) {
  std::vector<chart> out;
  for (auto& rule : rules()) {
    auto shown = rule.shown;
    // training comes first, and has the same colour in every chart
    std::vector<std::string> kinds;
    for (auto const& run : runs)
      for (auto const& [metric, points] : run.curves)
        if (rule.label(metric) == "training" && kinds.empty()) kinds.emplace_back("training");
    for (std::size_t run = 0; run < runs.size(); ++run)
      for (auto const& [metric, points] : runs[run].curves) {
        auto const label = rule.label(metric);
        if (label.empty() || points.empty()) continue;
        auto const kind = std::ranges::find(kinds, label);
        auto const number = static_cast<std::size_t>(kind - kinds.begin());
        if (kind == kinds.end()) kinds.push_back(label);
        shown.series.push_back({run, label, number, points});
      }
    std::ranges::stable_sort(shown.series, {}, [](chart_series const& series) {
      return std::pair(series.run, series.kind);
    });
    if (!shown.series.empty() && is_worth_showing(shown)) out.push_back(std::move(shown));
  }
  return out;
}

std::string text_of(double value, value_unit unit) {
  if (!std::isfinite(value)) return "not finite";
  switch (unit) {
    case value_unit::share: return fmt::format("{:.3g} %", 100 * value);
    case value_unit::count: return console::count(value);
    case value_unit::seconds: return console::duration(value);
    case value_unit::plain: break;
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace mpt::report
