// The overview of a page of runs: of one run its figures as cards, of several a table in which they
// are compared.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/charts.hpp>
#include <mpt/report/detail/json_values.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/page.hpp>

namespace mpt::report::detail {

namespace {

/// The text of a value that is unknown.
std::string const unknown = "–";

/// A figure with its label, and `detail` in small print; "" without a value.
std::string card(std::string_view label, std::string const& value, std::string const& detail) {
  if (value.empty()) return "";
  return fmt::format(
      "<div class=\"card\"><dt>{}</dt><dd>{}</dd><dd class=\"detail\">{}</dd></div>\n", label,
      escape(value), escape(detail));
}

std::string share_text(double value) { return to_string(value, value_unit::share); }

std::string rate_text(double flops_per_second) {
  return flops_per_second < 1e12 ? fmt::format("{:.3g} GFLOP/s", flops_per_second / 1e9)
                                 : fmt::format("{:.4g} TFLOP/s", flops_per_second / 1e12);
}

std::string loss_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "not finite";
}

std::string lowest_text(std::optional<batch_value> const& lowest) {
  if (!lowest) return "";
  return fmt::format("lowest {} at batch {}", loss_text(lowest->value),
                     console::grouped(lowest->batch));
}

/// `text`, which is about run_facts::evaluation, with the name of its set when a run has several.
std::string with_set_label(run_facts const& facts, std::string const& text) {
  if (facts.evaluations.size() < 2) return text;
  return text + (text.empty() ? "on " : ", on ") + facts.evaluation.label;
}

/// The figures of a run.
std::string cards_of(shown_run const& run) {
  run_facts const& f = run.facts;
  std::string out = "<dl class=\"cards\">\n";
  if (auto const& loss = f.evaluation.loss)
    out += card("Evaluation loss", loss_text(loss->value),
                with_set_label(f, lowest_text(f.evaluation.lowest_loss)));
  if (f.loss) out += card("Training loss", loss_text(f.loss->value), lowest_text(f.lowest_loss));
  if (auto const accuracy = f.evaluation.accuracy)
    out += card("Accuracy", share_text(*accuracy), with_set_label(f, "of tokens"));
  if (f.tokens)
    out += card("Tokens", console::count(*f.tokens),
                f.batches ? console::grouped(*f.batches) + " batches" : "");
  if (f.tokens_per_second)
    out += card("Tokens/s", console::count(*f.tokens_per_second), "while training");
  if (f.mfu) {
    auto const peak = run.record->summary_number("peak_flops");
    out += card("MFU", share_text(*f.mfu), peak ? "of " + rate_text(*peak) : "");
  }
  if (f.memory_bytes) {
    auto const ranks = f.memory_by_rank.size();
    out += card("Memory", console::bytes(*f.memory_bytes),
                ranks > 1 ? fmt::format("peak, largest of {} ranks", ranks) : "peak of a rank");
  }
  if (f.wall_clock)
    out += card("Wall-clock", console::duration(*f.wall_clock),
                f.goodput ? "goodput " + share_text(*f.goodput) : "");
  return out + "</dl>\n";
}

std::string state_badge(shown_run const& run) {
  bool const is_good = run.record->is_complete() || run.facts.state == "running";
  return fmt::format("<span class=\"badge {}\">{}</span>", is_good ? "good" : "open",
                     escape(run.facts.state));
}

/// How far a run is that still trains, and why one has failed; "" for others.
std::string progress_of(shown_run const& run) {
  auto const& record = *run.record;
  if (record.programs.empty()) return "";
  auto const& program = record.programs.back();
  if (!program.failure.empty())
    return fmt::format("<p class=\"reason\">{}</p>\n", escape(program.failure));
  if (run.facts.state != "running" || program.total_batches == 0) return "";
  auto const batches = run.facts.batches.value_or(0);
  auto const left =
      record.seconds_left < 0 ? "" : ", " + console::duration(record.seconds_left) + " left";
  return fmt::format(
      "<p>Batch {} of {} ({:.1f} %{})<progress max=\"{}\" value=\"{}\"></progress></p>\n",
      console::grouped(batches), console::grouped(program.total_batches),
      100.0 * static_cast<double>(batches) / static_cast<double>(program.total_batches), left,
      program.total_batches, batches);
}

/// The model, precision, layout, device and version of a run, and whether its end is unknown.
std::string description_of(shown_run const& run) {
  auto const& record = *run.record;
  std::vector<std::string> parts;
  for (auto const key : {"model", "precision", "layout", "device"})
    if (auto text = text_at(record.start, key); !text.empty())
      parts.push_back((key == std::string_view("layout") ? "ranks " : "") + text);
  if (auto const version = text_at(record.start, "version"); !version.empty())
    parts.push_back("ParallelLM " + version);
  if (parts.empty())
    for (auto const key : {"model", "ranks_text", "engine"})
      if (auto text = text_at(record.summary, key); !text.empty())
        parts.push_back((key == std::string_view("ranks_text") ? "ranks " : "") + text);
  if (!record.programs.empty() && !record.programs.back().is_ended && record.last_written > 0)
    parts.push_back(fmt::format("last wrote {:%Y-%m-%d %H:%M:%S} UTC",
                                fmt::gmtime(static_cast<std::time_t>(record.last_written))));
  return escape(fmt::format("{}", fmt::join(parts, " · ")));
}

/// A column of the table in which runs are compared.
struct compared_value {
  std::string title;
  std::function<std::optional<double>(run_facts const&)> value;
  std::function<std::string(double)> text;
  std::optional<bool> is_smallest_best;  // std::nullopt: no value is better than another
};

/// The columns of evaluations, each on run_facts::evaluation; `set_suffix` names their set.
std::vector<compared_value> evaluation_columns(std::string const& set_suffix) {
  return {{"eval loss" + set_suffix, [](run_facts const& f) { return value_of(f.evaluation.loss); },
           loss_text, true},
          {"lowest eval", [](run_facts const& f) { return value_of(f.evaluation.lowest_loss); },
           loss_text, true},
          {"eval accuracy", [](run_facts const& f) { return f.evaluation.accuracy; }, share_text,
           false}};
}

/// The columns of all other figures.
std::vector<compared_value> training_columns() {
  return {
      {"train loss", [](run_facts const& f) { return value_of(f.loss); }, loss_text, true},
      {"tokens", [](run_facts const& f) { return f.tokens; }, console::count, {}},
      {"tokens/s", [](run_facts const& f) { return f.tokens_per_second; }, console::count, false},
      {"MFU", [](run_facts const& f) { return f.mfu; }, share_text, false},
      {"memory", [](run_facts const& f) { return f.memory_bytes; }, console::bytes, true},
      {"wall-clock", [](run_facts const& f) { return f.wall_clock; }, console::duration, true},
      {"goodput", [](run_facts const& f) { return f.goodput; }, share_text, false}};
}

/// The best value in a column, if one is better than others.
std::optional<double> best_of(std::vector<shown_run> const& runs, compared_value const& column) {
  std::optional<double> smallest, largest;
  for (auto const& run : runs)
    if (auto const value = column.value(run.facts); value && std::isfinite(*value)) {
      smallest = std::min(smallest.value_or(*value), *value);
      largest = std::max(largest.value_or(*value), *value);
    }
  if (!column.is_smallest_best || smallest == largest) return std::nullopt;
  return *column.is_smallest_best ? smallest : largest;
}

bool has_several_sets(std::vector<shown_run> const& runs) {
  return std::ranges::any_of(runs,
                             [](shown_run const& run) { return run.facts.evaluations.size() > 1; });
}

/// The label of the set on which the runs are compared, as " (label)"; "" if it has none.
std::string common_set_suffix(std::vector<shown_run> const& runs) {
  for (auto const& run : runs)
    if (!run.facts.evaluation.label.empty()) return " (" + run.facts.evaluation.label + ")";
  return "";
}

/// A table with the last evaluation of each run on each of its sets.
std::string evaluation_table(std::vector<shown_run> const& runs) {
  table out{
      .caption = "Evaluation by set",
      .titles = {"set", "loss", "perplexity", "lowest loss", "after batch", "token accuracy"}};
  if (runs.size() > 1) out.titles.front() = "run, set";
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (auto const& set : runs[i].facts.evaluations) {
      auto const number = [](std::optional<double> const& value, auto const& text) {
        return value ? text(*value) : unknown;
      };
      std::vector row{
          (runs.size() > 1 ? run_label(runs, i) + ", " : "") +
              (set.label.empty() ? "without a label" : escape(set.label)),
          number(value_of(set.loss), loss_text),
          number(value_of(set.loss), [](double v) { return fmt::format("{:.2f}", std::exp(v)); }),
          number(value_of(set.lowest_loss), loss_text),
          set.lowest_loss ? console::grouped(set.lowest_loss->batch) : unknown,
          number(set.accuracy, share_text)};
      out.rows.push_back(std::move(row));
    }
  return html_of(out);
}

/// The table in which several runs are compared: a row for each.
std::string comparison_table(std::vector<shown_run> const& runs, bool has_common_set) {
  table out{.caption = "The runs side by side; the best value of a column is bold",
            .titles = {"run", "state", "batches"}};
  auto columns = training_columns();
  if (has_common_set) {
    auto const evaluations = evaluation_columns(common_set_suffix(runs));
    columns.insert(columns.begin(), evaluations.begin(), evaluations.end());
  } else {
    out.caption += "; evaluations, which are on different sets, are below";
  }
  for (auto const& column : columns) out.titles.push_back(column.title);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& facts = runs[i].facts;
    std::vector row{run_label(runs, i), state_badge(runs[i]),
                    facts.batches ? console::grouped(*facts.batches) : unknown};
    for (auto const& column : columns) {
      auto const value = column.value(facts);
      auto const text = value ? column.text(*value) : unknown;
      bool const is_best = value && value == best_of(runs, column);
      row.push_back(is_best ? "<strong>" + text + "</strong>" : text);
    }
    out.rows.push_back(std::move(row));
  }
  return html_of(out);
}

}  // namespace

std::string overview(std::vector<shown_run> const& runs, bool has_common_set) {
  auto const sets = has_several_sets(runs) || !has_common_set ? evaluation_table(runs) : "";
  if (runs.size() == 1)
    return fmt::format(
        "<section id=\"overview\" aria-label=\"Overview\"><p class=\"lead\">{} "
        "{}</p>\n{}{}{}</section>\n",
        state_badge(runs.front()), description_of(runs.front()), progress_of(runs.front()),
        cards_of(runs.front()), sets);
  std::string descriptions = "<ul class=\"runs\">";
  for (std::size_t i = 0; i < runs.size(); ++i)
    descriptions += fmt::format("<li><b>{}</b> {}{}</li>\n", run_label(runs, i),
                                description_of(runs[i]), progress_of(runs[i]));
  return fmt::format("<section id=\"overview\" aria-label=\"Overview\">{}{}</ul>{}</section>\n",
                     comparison_table(runs, has_common_set), descriptions, sets);
}

std::string published_table(std::vector<shown_run> const& runs) {
  table out{.caption = "Each run as a row of a table like those of published runs",
            .titles = table_titles()};
  if (runs.size() > 1) out.titles.insert(out.titles.begin(), "run");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto cells = table_cells(*runs[i].record, runs[i].facts);
    for (auto& cell : cells) cell = escape(cell);
    if (runs.size() > 1) cells.insert(cells.begin(), run_label(runs, i));
    out.rows.push_back(std::move(cells));
  }
  return section("row", "As a row of a table", html_of(out));
}

}  // namespace mpt::report::detail
