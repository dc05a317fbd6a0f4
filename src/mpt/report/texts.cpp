#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <span>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/detail/json_values.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/page.hpp>

namespace mpt::report::detail {

namespace {

/// The values of a key by run; "" where a run lacks it.
using key_values = std::vector<std::string>;

/// The keys of all runs in the order in which they were written.
std::vector<std::pair<std::string, key_values>> keys_of(std::vector<shown_run> const& runs) {
  std::vector<std::pair<std::string, key_values>> out;
  std::map<std::string, std::size_t> index;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    auto const& start = runs[run].record->start;
    auto const keys = start.find("configuration");
    if (keys == start.end() || !keys->is_object()) continue;
    for (auto const& [key, value] : keys->items()) {
      auto const added = index.emplace(key, out.size());
      if (added.second) out.emplace_back(key, key_values(runs.size()));
      out[added.first->second].second[run] =
          value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return out;
}

bool is_same(key_values const& values) {
  return std::ranges::all_of(values, [&](auto const& value) { return value == values.front(); });
}

std::string cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return escape(text);
  return escape(text.substr(0, limit)) + " …";
}

constexpr std::size_t longest_value = 400;  // bytes of a configuration's value
constexpr std::size_t longest_text = 2000;  // bytes of a note or sample

std::string sample_list(shown_run const& run, std::int64_t batch) {
  std::string out;
  for (auto const& sample : run.record->samples)
    if (sample.batch == batch)
      out += fmt::format("<blockquote>{}</blockquote>\n", cut(sample.text, longest_text));
  return out;
}

}  // namespace

std::string origin(std::vector<shown_run> const& runs) {
  table facts{.caption = "Of the last program of a run", .titles = {""}, .has_text = true};
  for (auto const& run : runs) facts.titles.push_back(run.record->name);
  auto const add = [&](std::string_view name, auto const& text_of_run) {
    std::vector row{std::string(name)};
    for (auto const& run : runs) row.push_back(cut(text_of_run(*run.record), longest_text));
    bool const is_known =
        std::any_of(row.begin() + 1, row.end(), [](auto const& cell) { return !cell.empty(); });
    if (is_known) facts.rows.push_back(std::move(row));
  };
  add("began", [](run_record const& run) {
    double const began = run.programs.empty() ? 0 : run.programs.back().began;
    return began > 0 ? fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                                   fmt::gmtime(static_cast<std::time_t>(began)))
                     : "";
  });
  for (auto const& [name, key] : {std::pair{"command", "command"},
                                  {"folder", "working_folder"},
                                  {"commit there", "commit"},
                                  {"machine of rank 0", "machine"},
                                  {"device", "device"},
                                  {"model", "model"},
                                  {"precision", "precision"},
                                  {"ranks", "layout"}})
    add(name, [key = key](run_record const& run) { return text_at(run.start, key); });
  return facts.rows.empty() ? "" : section("origin", "How it was started", html_of(facts));
}

std::string configuration(std::vector<shown_run> const& runs) {
  auto const keys = keys_of(runs);
  if (keys.empty()) return "";
  if (runs.size() == 1) {
    table whole{.caption = "Keys as they were written, with what the command line set",
                .titles = {"key", "value"},
                .has_text = true,
                .id = "keys"};
    for (auto const& [key, values] : keys)
      whole.rows.push_back({escape(key), cut(values.front(), longest_value)});
    return section("configuration", "Configuration",
                   fmt::format("<details open><summary>{} keys</summary>{}</details>", keys.size(),
                               html_of(whole)));
  }
  table different{.caption = "Keys that differ", .titles = {"key"}, .rows = {}, .has_text = true};
  table equal{.caption = "Keys that are the same in all runs",
              .titles = {"key", "value"},
              .has_text = true,
              .id = "keys"};
  for (auto const& run : runs) different.titles.push_back(run.record->name);
  for (auto const& [key, values] : keys) {
    if (is_same(values)) {
      equal.rows.push_back({escape(key), cut(values.front(), longest_value)});
      continue;
    }
    std::vector row{escape(key)};
    for (auto const& value : values)
      row.push_back(value.empty() ? "<i>not set</i>" : cut(value, longest_value));
    different.rows.push_back(std::move(row));
  }
  return section(
      "configuration", "What differs",
      (different.rows.empty() ? "<p>The configurations are the same.</p>" : html_of(different)) +
          fmt::format("<details><summary>{} keys that are the same</summary>{}</details>",
                      equal.rows.size(), html_of(equal)));
}

std::string samples(std::vector<shown_run> const& runs) {
  constexpr std::size_t most_batches = 20;
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::set<std::int64_t> unique;
    for (auto const& sample : runs[i].record->samples) unique.insert(sample.batch);
    if (unique.empty()) continue;
    std::vector<std::int64_t> const batches(unique.begin(), unique.end());
    auto const last = batches.back();
    content +=
        fmt::format("<h3>{}after batch {}</h3>{}", runs.size() > 1 ? run_label(runs, i) + ", " : "",
                    console::grouped(last), sample_list(runs[i], last));
    if (batches.size() == 1) continue;
    auto const shown = std::min(batches.size() - 1, most_batches);
    content +=
        fmt::format("<details><summary>{} earlier batches{}</summary>", batches.size() - 1,
                    shown < batches.size() - 1 ? fmt::format(", {} of them shown", shown) : "");
    for (std::size_t k = 0; k < shown; ++k) {
      auto const batch = batches[k * (batches.size() - 1) / shown];
      content +=
          fmt::format("<h4>batch {}</h4>{}", console::grouped(batch), sample_list(runs[i], batch));
    }
    content += "</details>";
  }
  return content.empty() ? "" : section("samples", "Generated texts", content);
}

std::string plan_picture(std::vector<shown_run> const& runs) {
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (auto const& picture = runs[i].record->plan_picture; !picture.empty())
      content += fmt::format(
          "{}<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the "
          "step\">"
          "<img class=\"plan\" alt=\"The passes and exchanges of a step by rank and stream\" "
          "src=\"data:image/svg+xml;base64,{}\"></div>\n",
          runs.size() > 1 ? "<p class=\"runname\">" + run_label(runs, i) + "</p>" : "",
          base64(picture));
  return content.empty() ? "" : section("plan", "The plan of a step", content);
}

std::string notes(std::vector<shown_run> const& runs) {
  constexpr std::size_t most_notes = 100;
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& record = *runs[i].record;
    std::string list;
    for (auto const& problem : record.problems)
      list += fmt::format("<li class=\"warning\">{}</li>\n", cut(problem, longest_text));
    std::set<std::string> seen;
    std::size_t shown = 0;
    for (auto const& note : record.notes) {
      if (!record.samples.empty() && note.text.starts_with("generated at "))
        continue;  // shown above
      if (!seen.insert(note.text).second) continue;
      if (++shown <= most_notes)
        list += fmt::format(
            "<li>{}{}</li>\n",
            note.batch > 0 ? fmt::format("<b>batch {}</b> ", console::grouped(note.batch)) : "",
            cut(note.text, longest_text));
    }
    if (shown > most_notes) list += fmt::format("<li>and {} more</li>\n", shown - most_notes);
    if (list.empty()) continue;
    if (runs.size() > 1) content += fmt::format("<h3>{}</h3>", run_label(runs, i));
    content += "<ul class=\"notes\">" + list + "</ul>\n";
  }
  return content.empty() ? "" : section("notes", "Notes and warnings", content);
}

std::string console_lines(std::vector<shown_run> const& runs) {
  constexpr std::size_t most_lines = 200;
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& lines = runs[i].record->lines;
    if (lines.empty()) continue;
    std::string text;
    for (auto const& line : std::span(lines).last(std::min(most_lines, lines.size())))
      text += cut(line.text, longest_text) + '\n';
    if (runs.size() > 1) content += fmt::format("<h3>{}</h3>", run_label(runs, i));
    content += "<pre>" + text + "</pre>\n";
  }
  return content.empty() ? "" : section("console", "Printed evaluations", content);
}

}  // namespace mpt::report::detail
