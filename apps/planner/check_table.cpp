#include <planner/check_table.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <mpt/config/read_train.hpp>
#include <mpt/console/table.hpp>
#include <mpt/finetune/csv_rows.hpp>
#include <mpt/plan/check_fits.hpp>
#include <mpt/plan/check_rows.hpp>
#include <mpt/plan/known_programs.hpp>
#include <mpt/plan/megatron_row.hpp>
#include <mpt/plan/predict_run.hpp>
#include <mpt/plan/published_row.hpp>
#include <mpt/plan/read_cluster.hpp>
#include <mpt/yaml/document.hpp>
#include <nlohmann/json.hpp>

#include <planner/predict_memory.hpp>

namespace apps {
namespace {

/// Ends the name of the GPU of rows whose model has a derived size (published_row).
constexpr std::string_view derived_size = ", derived size";

/// A predicted row and what its step consists of.
struct predicted_row {
  mpt::checked_row row;
  mpt::prediction prediction;
};

struct predicted_table {
  std::vector<predicted_row> rows;
  std::vector<predicted_bytes> allocated;  // rows that say how much memory was allocated
  std::vector<predicted_fit> tried;        // rows that say whether a layout fits
  std::map<std::string, int> refused;      // the number of rows that cannot be predicted, by reason
};

/// Makes the products of the blocks of a model in bf16 run in fp8.
void compute_in_fp8(parallel::cluster::cluster& machines) {
  parallel::require(machines.device.products.contains(1),
                    "its GPU has no rates of products in fp8");
  machines.program.has_fp8_blocks = true;
  machines.device.peak *= 2;
}

/// What is known of machines and programs.
struct knowledge {
  mpt::config_node clusters = mpt::parse_known_clusters();
  mpt::known_programs programs = {};
};

[[nodiscard]] predicted_row predict_row(mpt::published_row const& row, knowledge const& known) {
  auto const measured = row.seconds();
  parallel::require(measured.has_value(), "it has no time");
  auto machines = mpt::read_cluster(row.cluster(), 0, known.clusters);
  auto const program = mpt::program_of(row.text("source"));
  bool const is_fp8 = row.is_in_fp8();
  std::string const gpu = row.device() + (is_fp8 ? " fp8" : "");
  auto const costs = known.programs.costs(program, gpu, row.text("notes"));
  bool const is_derived = row.has_derived_size();
  machines.program = costs.value_or(parallel::cluster::program_costs{});
  machines.program.overlaps_regions = false;
  if (is_fp8) compute_in_fp8(machines);
  auto const config = mpt::read_train_config(mpt::make_document(row.yaml(), row.location()));
  auto const plan = mpt::plan_run<parallel::bf16>(config, machines.devices());
  auto predicted = mpt::predict_run<parallel::bf16>(config, plan, machines);
  parallel::require(predicted.utilisation * predicted.seconds < *measured,
                    "its step is faster than the peak of its GPUs allows");
  mpt::checked_row checked{.source = program,
                           .gpu = gpu + std::string(is_derived ? derived_size : ""),
                           .location = row.location(),
                           .measured = *measured,
                           .predicted = predicted.seconds,
                           .has_costs = costs.has_value(),
                           .checksum = row.checksum()};
  return {std::move(checked), std::move(predicted)};
}

[[nodiscard]] predicted_table predict_table(std::filesystem::path const& file) {
  predicted_table out;
  knowledge const known;
  mpt::finetune::csv_rows table(file);
  for (nlohmann::json fields; table.next(fields);) {
    try {
      if (mpt::is_megatron_row(fields)) {
        out.allocated.push_back(predict_bytes(fields, table.location()));
        continue;
      }
      mpt::published_row const row(fields, table.location());
      if (row.text("outcome").empty())
        out.rows.push_back(predict_row(row, known));
      else
        out.tried.push_back(predict_fit(row));
    } catch (parallel::error const& problem) {
      std::string reason = problem.what();
      if (reason.starts_with(table.location())) reason.erase(0, table.location().size() + 2);
      ++out.refused[reason];
    }
  }
  return out;
}

/// Seconds of the operations whose names contain a text.
[[nodiscard]] double seconds_of(mpt::prediction const& p, std::string_view part) {
  double out = 0;
  for (auto const& [name, seconds] : p.by_operation)
    if (name.find(part) != std::string::npos) out += seconds;
  return out;
}

[[nodiscard]] nlohmann::ordered_json json_of(predicted_row const& r) {
  auto const& p = r.prediction;
  double const products = seconds_of(p, "matmul"), attention = seconds_of(p, "attention");
  return {{"program", r.row.source},
          {"gpu", r.row.gpu},
          {"location", r.row.location},
          {"is_held_out", r.row.checksum % 2 == 1},
          {"measured", r.row.measured},
          {"predicted", r.row.predicted},
          {"products", products},
          {"attention", attention},
          {"elements", seconds_of(p, "") - products - attention},
          {"operations", p.operations},
          {"axes", p.split.axes},
          {"exchanges", p.exchange_seconds},
          {"bubble", p.split.bubble + p.split.end}};
}

/// The end of a location, "file.csv:12".
[[nodiscard]] std::string short_location(std::string const& location) {
  return location.substr(location.find_last_of('/') + 1);
}

void print_results(std::vector<mpt::source_result> const& results) {
  std::vector<std::vector<std::string>> lines{{"program", "device", "rows", "fitted", "factor",
                                               "held out", "mean error", "largest", "tau",
                                               "largest at"}};
  double errors[2] = {};  // of models whose sizes are stated, and of those whose are derived
  std::size_t held_out[2] = {};
  for (auto const& s : results) {
    auto const percent = [&](double share) {
      return s.held_out == 0 ? "" : fmt::format("{:.1f} %", 100 * share);
    };
    lines.push_back({s.source, s.gpu, std::to_string(s.rows), std::to_string(s.fitted),
                     fmt::format("{:.3f}", s.factor), std::to_string(s.held_out),
                     percent(s.mean_error), percent(s.largest_error), fmt::format("{:.2f}", s.tau),
                     short_location(s.largest_at)});
    bool const is_derived = s.gpu.ends_with(derived_size);
    errors[is_derived] += s.mean_error * static_cast<double>(s.held_out);
    held_out[is_derived] += s.held_out;
  }
  fmt::print("{}", mpt::console::markdown_table(
                       lines, {false, false, true, true, true, true, true, true, true, false}));
  fmt::print("\n");
  for (auto const& [i, models] : {std::pair{0, ""}, {1, " of models of derived sizes"}})
    if (held_out[i] > 0)
      fmt::print("{} rows{} held out: mean error {:.1f} %\n", held_out[i], models,
                 100 * errors[i] / static_cast<double>(held_out[i]));
}

void print_fits(std::vector<mpt::fit_counts> const& results) {
  std::vector<std::vector<std::string>> lines{{"program", "device", "rows", "held out", "right",
                                               "fits, as predicted", "does not, as predicted",
                                               "fits, unforeseen", "does not, unforeseen"}};
  for (auto const& s : results)
    lines.push_back({s.source, s.gpu, std::to_string(s.rows), std::to_string(s.held_out()),
                     fmt::format("{:.1f} %", 100 * s.right()), std::to_string(s.fits_as_predicted),
                     std::to_string(s.fails_as_predicted), std::to_string(s.fits_unforeseen),
                     std::to_string(s.fails_unforeseen)});
  std::vector<bool> right(lines.front().size(), true);
  right[0] = right[1] = false;
  fmt::print("{}", mpt::console::markdown_table(lines, right));
}

}  // namespace

void check_table(std::filesystem::path const& file, results_file const& json) {
  auto const table = predict_table(file);
  nlohmann::ordered_json document{{"rows", nlohmann::ordered_json::array()},
                                  {"refused", table.refused}};
  std::vector<mpt::checked_row> rows;
  for (auto const& r : table.rows) {
    document["rows"].push_back(json_of(r));
    rows.push_back(r.row);
  }
  std::vector<mpt::checked_row> allocated;
  for (auto const& r : table.allocated) {
    document["allocated"].push_back(r.to_json());
    allocated.push_back(r.row);
  }
  std::vector<mpt::tried_layout> tried;
  for (auto const& r : table.tried) {
    document["layouts"].push_back(r.to_json());
    tried.push_back(r.row);
  }
  json.write(document);
  if (json.is_printed_alone()) return;
  if (!rows.empty()) print_results(mpt::check_rows(rows));
  if (!allocated.empty()) print_results(mpt::check_rows(allocated));
  if (!tried.empty()) print_fits(mpt::check_fits(tried));
  for (auto const& [reason, count] : table.refused)
    fmt::print("{} rows not predicted: {}\n", count, reason);
}

}  // namespace apps
