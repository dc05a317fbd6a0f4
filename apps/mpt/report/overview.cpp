#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/charts.hpp>
#include <mpt/report/detail/json_values.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/html.hpp>

namespace mpt::report::detail {

namespace {

std::string const unknown = "–";

std::string card(std::string_view label, std::string const& value, std::string const& detail) {
  if (value.empty()) return "";
  return fmt::format(
      "<div class=\"card\"><dt>{}</dt><dd>{}</dd><dd class=\"detail\">{}</dd></div>\n", label,
      escape(value), escape(detail));
}

std::string share_text(double value) { return text_of(value, value_unit::share); }

std::string rate_text(double operations) {
  return operations < 1e12 ? fmt::format("{:.3g} GFLOP/s", operations / 1e9)
                           : fmt::format("{:.4g} TFLOP/s", operations / 1e12);
}

std::string lowest_text(std::optional<batch_value> const& lowest) {
  if (!lowest) return "";
  return fmt::format("lowest {:.4f} at batch {}", lowest->value, console::grouped(lowest->batch));
}

std::string cards_of(shown_run const& run) {
  auto const& f = run.facts;
  std::string out = "<dl class=\"cards\">\n";
  if (f.evaluation)
    out += card("Evaluation loss", fmt::format("{:.4f}", f.evaluation->value),
                lowest_text(f.lowest_evaluation));
  if (f.loss)
    out += card("Training loss", fmt::format("{:.4f}", f.loss->value), lowest_text(f.lowest_loss));
  if (f.accuracy) out += card("Evaluation accuracy", share_text(*f.accuracy), "of tokens");
  if (f.tokens)
    out += card("Tokens", console::count(*f.tokens),
                f.batches ? console::grouped(*f.batches) + " batches" : "");
  if (f.tokens_per_second)
    out += card("Tokens per second", console::count(*f.tokens_per_second), "while training");
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
  return fmt::format("<span class=\"badge {}\">{}</span>",
                     run.record->is_complete() ? "good" : "open", escape(run.facts.state));
}

std::string description_of(shown_run const& run) {
  auto const& record = *run.record;
  std::vector<std::string> parts;
  for (auto const key : {"model", "precision", "layout", "device"})
    if (auto text = text_at(record.start, key); !text.empty())
      parts.push_back((key == std::string_view("layout") ? "ranks " : "") + text);
  if (parts.empty())
    for (auto const key : {"model", "ranks_text", "engine"})
      if (auto text = text_at(record.summary, key); !text.empty())
        parts.push_back((key == std::string_view("ranks_text") ? "ranks " : "") + text);
  return escape(fmt::format("{}", fmt::join(parts, " · ")));
}

/// A row of the comparison: its title, the runs' values, and whether the smallest is the best one;
/// none: no value is better than another.
struct compared_value {
  std::string title;
  std::function<std::optional<double>(run_facts const&)> value;
  std::function<std::string(double)> text;
  std::optional<bool> is_smallest_best;
};

std::vector<compared_value> compared_values() {
  auto const loss = [](double v) { return fmt::format("{:.4f}", v); };
  return {
      {"eval loss", [](run_facts const& f) { return value_of(f.evaluation); }, loss, true},
      {"lowest eval", [](run_facts const& f) { return value_of(f.lowest_evaluation); }, loss, true},
      {"train loss", [](run_facts const& f) { return value_of(f.loss); }, loss, true},
      {"eval accuracy", [](run_facts const& f) { return f.accuracy; }, share_text, false},
      {"tokens", [](run_facts const& f) { return f.tokens; }, console::count, {}},
      {"tokens/s", [](run_facts const& f) { return f.tokens_per_second; }, console::count, false},
      {"MFU", [](run_facts const& f) { return f.mfu; }, share_text, false},
      {"memory", [](run_facts const& f) { return f.memory_bytes; }, console::bytes, true},
      {"wall-clock", [](run_facts const& f) { return f.wall_clock; }, console::duration, true},
      {"goodput", [](run_facts const& f) { return f.goodput; }, share_text, false}};
}

/// The best of the runs' values, where one is better than others.
std::optional<double> best_of(std::vector<shown_run> const& runs, compared_value const& row) {
  std::optional<double> smallest, largest;
  for (auto const& run : runs)
    if (auto const value = row.value(run.facts)) {
      smallest = std::min(smallest.value_or(*value), *value);
      largest = std::max(largest.value_or(*value), *value);
    }
  if (!row.is_smallest_best || smallest == largest) return std::nullopt;
  return *row.is_smallest_best ? smallest : largest;
}

std::string comparison_of(std::vector<shown_run> const& runs) {
  table out{.caption = "The runs side by side; the best value of a column is bold",
            .titles = {"run", "state", "batches"},
            .rows = {}};
  auto const values = compared_values();
  for (auto const& value : values) out.titles.push_back(value.title);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& facts = runs[i].facts;
    std::vector row{name_of(runs, i), state_badge(runs[i]),
                    facts.batches ? console::grouped(*facts.batches) : unknown};
    for (auto const& value : values) {
      auto const found = value.value(facts);
      auto const text = found ? value.text(*found) : unknown;
      row.push_back(found && found == best_of(runs, value) ? "<strong>" + text + "</strong>"
                                                           : text);
    }
    out.rows.push_back(std::move(row));
  }
  return html_of(out);
}

}  // namespace

std::string overview(std::vector<shown_run> const& runs) {
  if (runs.size() == 1)
    return fmt::format(
        "<section id=\"overview\" aria-label=\"Overview\"><p class=\"lead\">{} "
        "{}</p>\n{}</section>\n",
        state_badge(runs.front()), description_of(runs.front()), cards_of(runs.front()));
  std::string descriptions = "<ul class=\"runs\">";
  for (std::size_t i = 0; i < runs.size(); ++i)
    descriptions +=
        fmt::format("<li><b>{}</b> {}</li>\n", name_of(runs, i), description_of(runs[i]));
  return fmt::format("<section id=\"overview\" aria-label=\"Overview\">{}{}</ul></section>\n",
                     comparison_of(runs), descriptions);
}

std::string published_table(std::vector<shown_run> const& runs) {
  table out{.caption = "Each run as a row of a table like those of published runs",
            .titles = table_titles(),
            .rows = {}};
  if (runs.size() > 1) out.titles.insert(out.titles.begin(), "run");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto cells = table_cells(*runs[i].record, runs[i].facts);
    for (auto& cell : cells) cell = escape(cell);
    if (runs.size() > 1) cells.insert(cells.begin(), name_of(runs, i));
    out.rows.push_back(std::move(cells));
  }
  return section("row", "As a row of a table", html_of(out));
}

}  // namespace mpt::report::detail
