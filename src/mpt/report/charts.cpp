#include <mpt/report/charts.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/run_facts.hpp>

namespace mpt::report {

namespace {

/// The label of a logged number in a chart; "": the number does not belong there.
using label_rule = std::function<std::string(std::string_view metric)>;

struct chart_rule {
  chart shown;
  label_rule label;
};

/// The label of an evaluation set in a chart.
std::string evaluation_kind(std::string_view set) {
  return set.empty() ? "evaluation" : fmt::format("evaluation {}", set);
}

/// "metrics/eval/LABEL/NAME" → "evaluation LABEL", for that NAME.
std::string evaluation_label(std::string_view metric, std::string_view name) {
  constexpr std::string_view prefix = "metrics/eval/";
  if (!metric.starts_with(prefix) || !metric.ends_with(name)) return "";
  metric.remove_prefix(prefix.size());
  metric.remove_suffix(name.size());
  if (metric.ends_with('/')) metric.remove_suffix(1);
  return evaluation_kind(metric);
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

/// "system/node0/cpu_share" → "node0 cpu".
std::string load_label(std::string_view metric) {
  constexpr std::string_view prefix = "system/", suffix = "_share";
  if (!metric.starts_with(prefix) || !metric.ends_with(suffix)) return "";
  metric.remove_prefix(prefix.size());
  metric.remove_suffix(suffix.size());
  std::string out(metric);
  std::ranges::replace(out, '/', ' ');
  return out;
}

std::vector<chart_rule> rules() {
  using enum value_unit;
  return {
      {{.id = "loss",
        .title = "Loss",
        .explanation = "Cross entropy, mean of a token",
        .is_noisy = true},
       loss_label},
      {{.id = "accuracy",
        .title = "Token accuracy",
        .explanation = "Share of tokens that are the most likely one",
        .unit = share,
        .is_noisy = true},
       accuracy_label},
      {{.id = "tasks",
        .title = "Tasks",
        .explanation = "Scores of in-context tasks",
        .unit = share},
       task_label},
      {{.id = "gradient",
        .title = "Gradient norm",
        .explanation = "Of the mean loss, before clipping",
        .is_noisy = true},
       labels({{"l2_norm/grad/before_clipping", "before clipping"}})},
      {{.id = "rate", .title = "Learning rate", .explanation = "By group of parameters"},
       rate_label},
      {{.id = "speed",
        .title = "Tokens per second",
        .explanation = "All ranks together, over the last batches",
        .unit = count,
        .is_noisy = true},
       labels({{"throughput/tokens_per_sec", "tokens"},
               {"throughput/trained_tokens_per_sec", "tokens with a label"}})},
      {{.id = "mfu",
        .title = "Utilisation (MFU)",
        .explanation = "Share of the devices' peak rate that the model needs",
        .unit = share,
        .is_noisy = true},
       labels({{"throughput/device/mfu", "MFU"}, {"throughput/device/mfu_causal", "MFU, causal"}})},
      {{.id = "memory", .title = "Memory", .explanation = "Of rank 0", .unit = bytes, .series = {}},
       labels({{"memory/peak_allocated_mem", "device, peak"},
               {"memory/current_allocated_mem", "device"},
               {"memory/peak_resident_gb", "process, peak"}})},
      {{.id = "load",
        .title = "Load of the nodes",
        .explanation = "Processors over 50 batches, and memory in use",
        .unit = share},
       load_label},
      {{.id = "data",
        .title = "Waiting for data",
        .explanation = "Share of the last batches' time on rank 0",
        .unit = share},
       labels({{"time/data_wait_share", "waiting"}})},
  };
}

/// The curve of the rank that has the most memory at each batch, or the least.
curve extreme_rank(std::vector<curve> const& ranks, bool is_largest) {
  curve out;
  for (auto const batch : ranks.front().batches) {
    std::optional<double> found;
    for (auto const& points : ranks) {
      auto const at = std::ranges::lower_bound(points.batches, batch);
      if (at == points.batches.end() || *at != batch) continue;
      double const value = points.values[static_cast<std::size_t>(at - points.batches.begin())];
      if (!found || (is_largest ? value > *found : value < *found)) found = value;
    }
    out.add(batch, found.value_or(0));
  }
  return out;
}

/// The memory of the ranks over time: of one run on few ranks each rank's, else the extremes.
chart memory_by_rank(std::vector<run_record> const& runs) {
  constexpr std::size_t most_lines = 8;
  chart out{.id = "ranks",
            .title = "Peak memory by rank",
            .explanation = "Device memory, the largest so far",
            .unit = value_unit::bytes};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    auto const& ranks = runs[run].memory_by_rank;
    if (ranks.empty() || ranks.front().size() < 2) continue;
    if (ranks.size() == 1) {
      out.series.push_back({run, "rank 0", 0, ranks.front()});
    } else if (runs.size() == 1 && ranks.size() <= most_lines) {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        out.series.push_back({run, fmt::format("rank {}", rank), rank, ranks[rank]});
    } else {
      out.series.push_back({run, "the most of a rank", 0, extreme_rank(ranks, true)});
      out.series.push_back({run, "the least of a rank", 1, extreme_rank(ranks, false)});
    }
  }
  return out;
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

namespace {

/// The labels that a rule gives to training and evaluations, in this order, so that they have the
/// same colours in every chart.
std::vector<std::string> first_kinds(std::vector<run_record> const& runs, label_rule const& label) {
  std::vector<std::string> ordered{"training"};
  for (auto const& run : runs)
    for (auto const& set : evaluation_labels(run)) ordered.push_back(evaluation_kind(set));
  std::vector<std::string> out;
  for (auto const& kind : ordered) {
    bool const is_known = std::ranges::find(out, kind) != out.end();
    bool const is_logged = std::ranges::any_of(runs, [&](run_record const& run) {
      return std::ranges::any_of(run.curves,
                                 [&](auto const& logged) { return label(logged.first) == kind; });
    });
    if (is_logged && !is_known) out.push_back(kind);
  }
  return out;
}

}  // namespace

std::vector<chart> charts_of(std::vector<run_record> const& runs) {
  std::vector<chart> out;
  for (auto& rule : rules()) {
    auto shown = rule.shown;
    auto kinds = first_kinds(runs, rule.label);
    for (std::size_t run = 0; run < runs.size(); ++run)
      for (auto const& [metric, points] : runs[run].curves) {
        auto const label = rule.label(metric);
        if (label.empty() || points.empty()) continue;
        auto const kind = std::ranges::find(kinds, label);
        auto const number = static_cast<std::size_t>(kind - kinds.begin());
        if (kind == kinds.end()) kinds.push_back(label);
        shown.series.push_back({run, label, number, points});
        if (shown.id == "memory")  // logged in units of 10⁹ bytes
          for (double& value : shown.series.back().points.values) value *= 1e9;
      }
    std::ranges::stable_sort(shown.series, {}, [](chart_series const& series) {
      return std::pair(series.run, series.kind);
    });
    bool const is_memory = shown.id == "memory";
    if (!shown.series.empty() && is_worth_showing(shown)) out.push_back(std::move(shown));
    if (auto ranks = memory_by_rank(runs); is_memory && !ranks.series.empty())
      out.push_back(std::move(ranks));
  }
  return out;
}

std::string to_string(double value, value_unit unit) {
  if (!std::isfinite(value)) return "not finite";
  switch (unit) {
    case value_unit::share: return fmt::format("{:.3g}\u00A0%", 100 * value);
    case value_unit::count: return console::count(value);
    case value_unit::seconds: return console::duration(value);
    case value_unit::bytes: return console::bytes(value);
    case value_unit::plain: break;
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace mpt::report
