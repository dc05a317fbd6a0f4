#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/report/charts.hpp>
#include <mpt/report/detail/sections.hpp>
#include <mpt/report/page.hpp>

namespace mpt::report::detail {

namespace {

std::vector<std::string> names_of_time() {
  return {"training", "waiting for data", "evaluation", "saving", "start-up",
          "lost",     "not accounted for"};
}

std::vector<double> seconds_of(time_split const& spent) {
  return {spent.training, spent.data, spent.evaluation, spent.saving,
          spent.start,    spent.lost, spent.remaining};
}

std::string seconds_text(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : console::duration(seconds);
}

std::string table_of_time(std::vector<shown_run> const& runs) {
  table out{.caption = "Seconds and shares of the wall-clock time of all programs of a run",
            .titles = {"run"}};
  for (auto const& name : names_of_time()) out.titles.push_back(name);
  out.titles.insert(out.titles.end(), {"wall-clock", "goodput"});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const spent = runs[i].record->spent();
    if (spent.total() <= 0) continue;
    std::vector row{run_label(runs, i)};
    for (double const seconds : seconds_of(spent))
      row.push_back(fmt::format("{} <small>{}</small>", seconds_text(seconds),
                                to_string(seconds / spent.total(), value_unit::share)));
    row.push_back(seconds_text(spent.total()));
    row.push_back(to_string(spent.goodput(), value_unit::share));
    out.rows.push_back(std::move(row));
  }
  return html_of(out);
}

std::string table_of_programs(std::vector<shown_run> const& runs) {
  table out{.caption = "The programs that trained the runs, one after another",
            .titles = {"run", "began (UTC)", "batches", "wall-clock", "lost", "end"}};
  bool is_shown = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& programs = runs[i].record->programs;
    is_shown = is_shown || programs.size() > 1;
    for (auto const& program : programs) {
      auto const began = static_cast<std::time_t>(program.began);
      out.rows.push_back(
          {run_label(runs, i),
           program.began > 0 ? fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(began)) : "–",
           program.first_batch > 0 ? fmt::format("{} – {}", console::grouped(program.first_batch),
                                                 console::grouped(program.last_batch))
                                   : "none",
           seconds_text(program.spent.total()), seconds_text(program.spent.lost),
           state_of(*runs[i].record, program) +
               (program.failure.empty() ? "" : ": " + escape(program.failure))});
    }
  }
  return is_shown ? html_of(out) : "";
}

/// The planned bytes of a rank by what they hold.
std::vector<std::pair<std::string, double>> planned_memory(run_record const& run) {
  std::vector<std::pair<std::string, double>> out;
  auto const plan = run.start.find("memory_plan");
  if (plan == run.start.end() || !plan->is_object()) return out;
  for (auto const& [key, bytes] : plan->items()) {
    auto name = key;
    std::ranges::replace(name, '_', ' ');
    if (bytes.is_number()) out.emplace_back(name, bytes.get<double>());
  }
  return out;
}

std::string plan_of_memory(std::vector<shown_run> const& runs) {
  double largest = 0;
  std::vector<std::string> names;
  table numbers{
      .caption = "Planned bytes of the rank that needs the most", .titles = {"run"}, .rows = {}};
  std::string bars;
  for (auto const& run : runs) {
    double total = 0;
    for (auto const& [name, bytes] : planned_memory(*run.record)) {
      total += bytes;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    largest = std::max(largest, total);
  }
  if (names.empty()) return "";
  for (auto const& name : names) numbers.titles.push_back(name);
  numbers.titles.emplace_back("together");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const plan = planned_memory(*runs[i].record);
    std::vector<bar_part> parts;
    std::vector row{run_label(runs, i)};
    double total = 0;
    for (auto const& name : names) {
      auto const found = std::ranges::find(plan, name, [](auto const& part) { return part.first; });
      double const bytes = found == plan.end() ? 0 : found->second;
      total += bytes;
      parts.push_back({name, bytes, console::bytes(bytes)});
      row.push_back(console::bytes(bytes));
    }
    row.push_back(console::bytes(total));
    numbers.rows.push_back(std::move(row));
    bars += fmt::format(
        "<div class=\"barrow\"><span>{}</span>{}<span class=\"value\">{}</span></div>\n",
        runs.size() == 1 ? "planned" : run_label(runs, i), bar_of(parts, largest),
        console::bytes(total));
  }
  return fmt::format(
      "<h3>Planned, of the rank that needs the most</h3>{}{}"
      "<details><summary>As a table</summary>{}</details>",
      bar_legend(names), bars, html_of(numbers));
}

/// The peaks of the ranks of all runs.
std::string memory_by_rank(std::vector<shown_run> const& runs) {
  constexpr std::size_t most_bars = 64;
  double largest = 0;
  for (auto const& run : runs)
    for (double const bytes : run.facts.memory_by_rank) largest = std::max(largest, bytes);
  if (largest == 0) return "";
  std::string out = "<h3>Peak by rank</h3>";
  table numbers{
      .caption = "Peaks of device memory by rank", .titles = {"rank", "peak"}, .rows = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& ranks = runs[i].facts.memory_by_rank;
    if (ranks.empty()) continue;
    if (runs.size() > 1) out += fmt::format("<p class=\"runname\">{}</p>", run_label(runs, i));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto const text = console::bytes(ranks[rank]);
      auto const label = fmt::format("rank {}", rank);
      if (rank < most_bars)
        out += fmt::format(
            "<div class=\"barrow thin\"><span>{}</span>{}<span class=\"value\">{}</span></div>\n",
            label, bar_of({{label, ranks[rank], text, fmt::format("c{}", i % 10)}}, largest), text);
      numbers.rows.push_back({runs.size() > 1 ? run_label(runs, i) + ", " + label : label, text});
    }
    if (ranks.size() > most_bars)
      out += fmt::format("<p>and {} more ranks, in the table</p>", ranks.size() - most_bars);
  }
  return out + "<details><summary>As a table</summary>" + html_of(numbers) + "</details>";
}

}  // namespace

std::string spent_time(std::vector<shown_run> const& runs) {
  std::string bars;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const spent = runs[i].record->spent();
    if (spent.total() <= 0) continue;
    auto const seconds = seconds_of(spent);
    std::vector<bar_part> parts;
    for (std::size_t k = 0; k < seconds.size(); ++k)
      parts.push_back({names_of_time()[k], seconds[k],
                       seconds_text(seconds[k]) + ", " +
                           to_string(seconds[k] / spent.total(), value_unit::share)});
    bars += fmt::format(
        "<div class=\"barrow\"><span>{}</span>{}<span class=\"value\">{}</span></div>\n",
        runs.size() == 1 ? "goodput " + to_string(spent.goodput(), value_unit::share)
                         : run_label(runs, i),
        bar_of(parts, spent.total()), seconds_text(spent.total()));
  }
  if (bars.empty()) return "";
  return section("time", "Where the time went",
                 bar_legend(names_of_time()) + bars +
                     "<p class=\"hint\">Goodput is the share of the wall-clock time of all "
                     "programs in which batches that "
                     "count were trained, waiting for data included. Lost is the training of "
                     "batches that had to be "
                     "trained again after a restart.</p>" +
                     table_of_programs(runs) + "<details><summary>As a table</summary>" +
                     table_of_time(runs) + "</details>");
}

std::string memory(std::vector<shown_run> const& runs) {
  auto const content = memory_by_rank(runs) + plan_of_memory(runs);
  return content.empty() ? "" : section("memory", "Memory of the ranks", content);
}

std::string prediction(std::vector<shown_run> const& runs) {
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const found = runs[i].record->summary.find("prediction");
    if (found == runs[i].record->summary.end() || !found->is_object()) continue;
    table numbers{.caption = "Seconds of a step of rank 0, by operation",
                  .titles = {"operation", "predicted", "measured", "difference"}};
    auto const add = [&](std::string_view name, nlohmann::ordered_json const& predicted,
                         nlohmann::ordered_json const& measured) {
      if (!predicted.is_number() || !measured.is_number()) return;
      double const one = predicted, other = measured;
      numbers.rows.push_back({escape(name), fmt::format("{:.4g}", one),
                              fmt::format("{:.4g}", other), fmt::format("{:+.4g}", other - one)});
    };
    auto const number = [&](std::string_view key) {
      return found->value(std::string(key), nlohmann::ordered_json());
    };
    add("whole step", number("predicted_seconds"), number("measured_seconds"));
    auto const predicted = number("predicted_by_operation");
    auto const measured = number("measured_by_operation");
    if (predicted.is_object() && measured.is_object())
      for (auto const& [name, seconds] : predicted.items())
        add(name, seconds, measured.value(name, nlohmann::ordered_json(0.0)));
    content += (runs.size() == 1 ? "" : run_label(runs, i)) + html_of(numbers);
  }
  return content.empty() ? "" : section("prediction", "Predicted and measured", content);
}

}  // namespace mpt::report::detail
