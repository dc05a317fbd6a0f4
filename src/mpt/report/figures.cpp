#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/console/plain_text.hpp>
#include <mpt/report/charts.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/page.hpp>

namespace mpt::report::detail {

namespace {

constexpr std::size_t points_of_page = 50'000;  // some 15 bytes each
constexpr std::size_t cells_of_page = 12'000;   // of tables, some 40 bytes each

/// The name of a series: of its run where there are several, and of what it shows where a chart
/// shows several things.
std::string series_name(chart const& shown, chart_series const& series,
                        std::vector<run_record> const& runs) {
  bool const is_alone = std::ranges::all_of(
      shown.series, [&](chart_series const& other) { return other.kind == series.kind; });
  auto const label = console::plain_line(series.label);
  if (runs.size() == 1) return label;
  auto const run = console::plain_line(runs[series.run].name);
  return is_alone ? run : run + ", " + label;
}

/// Tokens and hours of training by batch, for other axes than batches.
nlohmann::ordered_json scale_of(run_record const& run) {
  constexpr std::size_t points = 400;
  auto const tokens = decimate(run.find("time/token"), points);
  auto const& seconds = run.find(seconds_of_batch);
  curve hours;
  double sum = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    sum += std::isfinite(seconds.values[i]) ? seconds.values[i] : 0;
    hours.add(seconds.batches[i], sum / 3600);
  }
  return {{"name", console::plain_line(run.name)},
          {"tokens", to_json(tokens)},
          {"hours", to_json(decimate(hours, points))}};
}

nlohmann::ordered_json data_of(std::vector<chart> const& charts,
                               std::vector<run_record> const& runs) {
  std::size_t series_count = 1;
  for (auto const& shown : charts) series_count += shown.series.size();
  auto const limit = std::clamp<std::size_t>(points_of_page / series_count, 60, 2000);
  nlohmann::ordered_json out{{"runs", nlohmann::ordered_json::array()},
                             {"charts", nlohmann::ordered_json::array()},
                             {"metrics", data_of_metrics(runs)}};
  for (auto const& run : runs) out["runs"].push_back(scale_of(run));
  for (auto const& shown : charts) {
    auto series = nlohmann::ordered_json::array();
    for (auto const& line : shown.series) {
      auto record = to_json(decimate(line.points, limit));
      record["name"] = series_name(shown, line, runs);
      record["run"] = line.run;
      record["kind"] = line.kind;
      series.push_back(std::move(record));
    }
    out["charts"].push_back({{"id", shown.id},
                             {"title", shown.title},
                             {"unit", shown.unit == value_unit::share   ? "share"
                                      : shown.unit == value_unit::count ? "count"
                                      : shown.unit == value_unit::bytes ? "bytes"
                                                                        : "plain"},
                             {"noisy", shown.is_noisy},
                             {"series", std::move(series)}});
  }
  return out;
}

/// Ranges of batches for the rows of a table: every batch that was logged where these are few.
std::vector<std::pair<std::int64_t, std::int64_t>> ranges_of(chart const& shown, std::size_t rows) {
  std::vector<std::int64_t> batches;
  for (auto const& series : shown.series) {
    std::vector<std::int64_t> both;
    std::ranges::set_union(batches, series.points.batches, std::back_inserter(both));
    batches = std::move(both);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  rows = std::min(rows, batches.size());
  for (std::size_t row = 0; row < rows; ++row)
    out.emplace_back(batches[row * batches.size() / rows],
                     batches[(row + 1) * batches.size() / rows - 1]);
  return out;
}

std::string cell_of(value_range const& range, value_unit unit) {
  std::string const mark = range.has_non_finite ? " <small>not finite</small>" : "";
  if (range.count == 0) return range.has_non_finite ? "not finite" : "";
  auto const mean = to_string(range.mean, unit);
  if (range.count == 1) return mean + mark;
  return fmt::format("{} <small>{} – {}</small>{}", mean, to_string(range.smallest, unit),
                     to_string(range.largest, unit), mark);
}

std::string table_of(chart const& shown, std::vector<run_record> const& runs, std::size_t rows) {
  auto const ranges = ranges_of(shown, rows);
  bool const is_exact =
      std::ranges::all_of(ranges, [](auto const& range) { return range.first == range.second; });
  table out{.caption =
                is_exact ? shown.title + " by batch"
                         : shown.title + " by range of batches: mean, and smallest – largest value",
            .titles = {"batches"}};
  for (auto const& series : shown.series) out.titles.push_back(series_name(shown, series, runs));
  for (auto const& [first, last] : ranges) {
    std::vector row{first == last
                        ? console::grouped(first)
                        : fmt::format("{} – {}", console::grouped(first), console::grouped(last))};
    for (auto const& series : shown.series)
      row.push_back(cell_of(summarize(series.points, first, last), shown.unit));
    out.rows.push_back(std::move(row));
  }
  return html_of(out);
}

std::string toolbar(std::vector<run_record> const& runs) {
  std::string out = R"(<form class="toolbar" id="toolbar" aria-label="Of all charts" hidden>
<fieldset><legend>Axis</legend>
<label><input type="radio" name="axis" value="batches" checked>batches</label>
<label><input type="radio" name="axis" value="tokens">tokens</label>
<label><input type="radio" name="axis" value="hours">hours</label></fieldset>
<label>Smoothing <input type="range" name="smoothing" min="0" max="100" value="30"></label>
<label><input type="checkbox" name="logarithm">logarithmic loss</label>
<button type="button" id="whole">Whole run</button>
)";
  if (runs.size() > 1) {
    out += "<fieldset class=\"shown\"><legend>Runs</legend>\n";
    for (std::size_t i = 0; i < runs.size(); ++i)
      out += fmt::format(
          "<label><input type=\"checkbox\" name=\"run\" value=\"{}\" checked>"
          "<span class=\"mark c{}\"></span>{}</label>\n",
          i, i % 10, escape(runs[i].name));
    out += "</fieldset>\n";
  }
  return out + "</form>\n";
}

}  // namespace

std::string figures(std::vector<run_record> const& runs) {
  auto const charts = charts_of(runs);
  if (charts.empty()) return "";
  std::size_t columns = 0;
  for (auto const& shown : charts) columns += shown.series.size() + 1;
  auto const rows = std::clamp<std::size_t>(cells_of_page / columns, 10, 50);
  std::string content;
  if (has_charts())
    content += toolbar(runs) +
               "<p class=\"hint needs-script\">Drag over a chart to look closer, double-click to "
               "see all. With the "
               "keyboard: <kbd>Tab</kbd> to a chart, <kbd>←</kbd> <kbd>→</kbd> to walk along its "
               "values, <kbd>+</kbd> "
               "<kbd>−</kbd> to zoom, <kbd>0</kbd> to see all.</p>\n";
  content += "<div class=\"figures\">\n";
  for (auto const& shown : charts) {
    content += fmt::format(
        "<figure id=\"figure-{0}\"{1}><figcaption><b>{2}</b> <span>{3}</span></figcaption>\n",
        shown.id, shown.id == "loss" ? " class=\"wide\"" : "", escape(shown.title),
        escape(shown.explanation));
    if (has_charts())
      content += fmt::format(
          "<ul class=\"legend\" id=\"legend-{0}\"></ul>"
          "<div class=\"chart\" id=\"chart-{0}\"></div>\n",
          shown.id);
    content += fmt::format("<details{}><summary>As a table</summary>{}</details></figure>\n",
                           has_charts() ? "" : " open", table_of(shown, runs, rows));
  }
  content +=
      "</div>\n<span id=\"paper\" hidden></span><p id=\"spoken\" class=\"spoken\" role=\"status\" "
      "aria-live=\"polite\"></p>\n";
  if (has_charts())
    content += "<script type=\"application/json\" id=\"data\">" +
               json_in_script(data_of(charts, runs)) + "</script>\n";
  return section("curves", "Curves", content);
}

}  // namespace mpt::report::detail
