// All numbers that runs logged: a table with their last, smallest and largest values.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include <mpt/console/plain_text.hpp>
#include <mpt/report/charts.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/page.hpp>

namespace mpt::report::detail {

namespace {

/// The names of all logged numbers.
std::set<std::string> names_of_metrics(std::vector<run_record> const& runs) {
  std::set<std::string> names;
  for (auto const& run : runs)
    for (auto const& [name, points] : run.curves)
      if (!points.empty() && name != seconds_of_batch) names.insert(name);
  return names;
}

}  // namespace

nlohmann::ordered_json to_json(curve const& points) {
  auto batches = nlohmann::ordered_json::array();
  auto values = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    batches.push_back(points.batches[i]);
    if (std::isfinite(points.values[i]))  // six digits take half of the bytes of all
      values.push_back(nlohmann::ordered_json::parse(fmt::format("{:.6g}", points.values[i])));
    else
      values.push_back(nullptr);
  }
  return {{"x", std::move(batches)}, {"y", std::move(values)}};
}

nlohmann::ordered_json data_of_metrics(std::vector<run_record> const& runs) {
  constexpr std::size_t points_of_all = 40'000;  // some 15 bytes each
  auto const names = names_of_metrics(runs);
  auto const limit =
      std::clamp<std::size_t>(points_of_all / (names.size() * runs.size() + 1), 20, 400);
  auto out = nlohmann::ordered_json::array();
  for (auto const& name : names) {
    auto series = nlohmann::ordered_json::array();
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (runs[run].find(name).empty()) continue;
      auto record = to_json(decimate(runs[run].find(name), limit));
      record["name"] = console::plain_line(runs.size() == 1 ? name : runs[run].name);
      record["run"] = run;
      record["kind"] = 0;
      series.push_back(std::move(record));
    }
    out.push_back({{"id", fmt::format("metric-{}", out.size())},
                   {"title", console::plain_line(name)},
                   {"unit", "plain"},
                   {"noisy", true},
                   {"series", std::move(series)}});
  }
  return out;
}

std::string all_metrics(std::vector<run_record> const& runs) {
  auto const names = names_of_metrics(runs);
  if (names.empty()) return "";
  table numbers{.caption = "Every number of the metrics file, by its name there",
                .titles = {"name"},
                .id = "all-metrics"};
  for (auto const& run : runs)
    for (auto const* const value : {"last", "smallest", "largest"})
      numbers.titles.push_back(runs.size() == 1 ? value : fmt::format("{}, {}", run.name, value));
  for (auto const& name : names) {
    std::vector row{escape(console::plain_line(name))};
    for (auto const& run : runs) {
      auto const& points = run.find(name);
      if (points.empty()) {
        row.insert(row.end(), 3, "–");
        continue;
      }
      auto const range = summarize(points, points.batches.front(), points.batches.back());
      auto const number = [](double value) { return to_string(value, value_unit::plain); };
      bool const is_finite = range.count > 0;
      row.push_back(number(points.values.back()));
      row.push_back(is_finite ? number(range.smallest) : "–");
      row.push_back(is_finite ? number(range.largest) : "–");
    }
    numbers.rows.push_back(std::move(row));
  }
  return section("metrics", "All metrics",
                 fmt::format("{}<div class=\"figures\" id=\"chosen-metrics\"></div>"
                             "<details{}><summary>{} numbers</summary>{}</details>",
                             has_charts() ? "<p class=\"hint needs-script\">Each name in the table "
                                            "draws its chart.</p>"
                                          : "",
                             names.size() > 100 ? "" : " open", names.size(), html_of(numbers)));
}

}  // namespace mpt::report::detail
