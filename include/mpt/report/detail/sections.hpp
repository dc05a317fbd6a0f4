// The sections of the page of runs, as HTML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/report/run_facts.hpp>
#include <mpt/report/run_record.hpp>

namespace mpt::report::detail {

struct shown_run {
  run_record const* record = nullptr;
  run_facts facts;
};

/// Each returns "" where there is nothing to show. `has_common_set`: the shown evaluations of all
/// runs are on the same set.
[[nodiscard]] std::string overview(std::vector<shown_run> const& runs, bool has_common_set);
[[nodiscard]] std::string figures(std::vector<run_record> const& runs);
/// Every number that the runs logged, as a table that is searched, of which charts are drawn.
[[nodiscard]] std::string all_metrics(std::vector<run_record> const& runs);
/// Those numbers for the script: with the names that the table has, and few points.
[[nodiscard]] nlohmann::ordered_json data_of_metrics(std::vector<run_record> const& runs);
/// Batches and values, null where they are not finite.
[[nodiscard]] nlohmann::ordered_json to_json(curve const& points);
[[nodiscard]] std::string published_table(std::vector<shown_run> const& runs);
[[nodiscard]] std::string spent_time(std::vector<shown_run> const& runs);
[[nodiscard]] std::string memory(std::vector<shown_run> const& runs);
/// What a step was predicted to take, and what it took.
[[nodiscard]] std::string prediction(std::vector<shown_run> const& runs);
[[nodiscard]] std::string origin(std::vector<shown_run> const& runs);
[[nodiscard]] std::string configuration(std::vector<shown_run> const& runs);
[[nodiscard]] std::string samples(std::vector<shown_run> const& runs);
[[nodiscard]] std::string plan_picture(std::vector<shown_run> const& runs);
[[nodiscard]] std::string notes(std::vector<shown_run> const& runs);
/// The last lines of evaluations and tasks that the runs printed.
[[nodiscard]] std::string console_lines(std::vector<shown_run> const& runs);

/// A table whose first cell of a row is its heading.
struct table {
  std::string caption;                              // text
  std::vector<std::string> titles;                  // text
  std::vector<std::vector<std::string>> rows = {};  // HTML
  bool has_text = false;                            // else all columns but the first are numbers
  std::string id = {};                              // of a table that can be searched
};
[[nodiscard]] std::string html_of(table const& content);

/// A section with a heading.
[[nodiscard]] std::string section(std::string_view id, std::string_view title,
                                  std::string_view content);

/// The name of run number `run`, with a mark in its colour where there are several.
[[nodiscard]] std::string run_label(std::vector<shown_run> const& runs, std::size_t run);

struct bar_part {
  std::string name;
  double length = 0;
  std::string text;
  std::string colour = {};  // a class of the page's styles; "": by its place in the bar
};

/// A horizontal bar of parts, of which `whole` would fill the width.
[[nodiscard]] std::string bar_of(std::vector<bar_part> const& parts, double whole);

/// The names of the parts with their colours.
[[nodiscard]] std::string bar_legend(std::vector<std::string> const& names);

}  // namespace mpt::report::detail
