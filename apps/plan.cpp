// plan: foretells a training run on a cluster that need not be there: the fastest layouts, what
// they need and what they wait for.
//
//   plan run.yaml cluster=h100x8x64                  the best layouts for 64 nodes of 8 H100
//   plan run.yaml cluster=h100x8x64 layout=file      the layout that the file has
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/config/read_train.hpp>
#include <mpt/console/format.hpp>
#include <mpt/finetune/csv_rows.hpp>
#include <mpt/plan/check_rows.hpp>
#include <mpt/plan/layouts.hpp>
#include <mpt/plan/predict_run.hpp>
#include <mpt/plan/published_row.hpp>
#include <mpt/plan/read_cluster.hpp>
#include <mpt/yaml/document.hpp>
#include <nlohmann/json.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/hub_names.hpp>

namespace {

namespace cluster = parallel::cluster;

struct candidate {
  mpt::settings settings;
  mpt::train_config config;
  mpt::run_plan plan{};
  mpt::prediction prediction{};
};

/// The overrides that are for the plan itself, taken out of those for the file.
struct plan_options {
  std::string cluster, network, layout;
};

plan_options take_options(std::vector<std::string>& overrides) {
  plan_options out;
  for (auto const& [key, target] :
       {std::pair{"cluster=", &out.cluster}, std::pair{"network=", &out.network},
        std::pair{"layout=", &out.layout}})
    std::erase_if(overrides, [&](std::string const& text) {
      if (!text.starts_with(key)) return false;
      *target = text.substr(std::string_view(key).size());
      return true;
    });
  return out;
}

template <class F>
decltype(auto) with_element(mpt::precision_kind precision, F const& call) {
  return precision == mpt::precision_kind::fp32 ? call(float()) : call(parallel::bf16());
}

/// Plans and predicts the run with additional settings; none where they cannot be, or do not fit.
std::optional<candidate> try_layout(apps::training_file& source,
                                    std::vector<std::string> const& overrides,
                                    mpt::settings const& settings,
                                    cluster::cluster const& machines) try {
  auto all = overrides;
  all.insert(all.end(), settings.begin(), settings.end());
  candidate out{.settings = settings, .config = source.load(all)};
  int const ranks = machines.devices();
  shard_within(out.config.execution.parallelism, ranks, machines.devices_on_node);
  return with_element(out.config.execution.precision, [&]<class T>(T) -> std::optional<candidate> {
    out.plan = mpt::plan_run<T>(out.config, ranks, machines.available_memory(), std::size_t{0});
    if (!fits(out.plan)) return std::nullopt;
    out.prediction = mpt::predict_run<T>(out.config, out.plan, machines);
    return std::move(out);
  });
} catch (parallel::error const& problem) {
  if (settings.empty()) throw;
  return std::nullopt;
}

/// Predicts the rows of a table of published steps; `refused` counts reasons.
std::vector<mpt::checked_row> predict_rows(std::filesystem::path const& file,
                                           std::map<std::string, int>& refused) {
  std::vector<mpt::checked_row> out;
  mpt::finetune::csv_rows table(file);
  for (nlohmann::json fields; table.next(fields);) {
    mpt::published_row const row(fields, table.location());
    try {
      auto const measured = row.seconds();
      parallel::require(measured.has_value(), "it has no time");
      parallel::require(row.text("precision") == "bf16" || row.text("precision") == "fp16",
                        "its precision is ", row.text("precision"));
      auto const machines = mpt::read_cluster(row.cluster());
      auto config = mpt::read_train_config(mpt::make_document(row.yaml(), table.location()));
      auto const plan = mpt::plan_run<parallel::bf16>(config, machines.devices(), 0, std::nullopt);
      auto const predicted = mpt::predict_run<parallel::bf16>(config, plan, machines);
      auto const& split = predicted.split;
      double products = 0, attention = 0, others = 0;
      for (auto const& [name, seconds] : predicted.by_operation)
        (name == "matmul" ? products : name.starts_with("attention") ? attention : others) += seconds;
      if (std::getenv("SPLIT"))
        fmt::print("PARTS {} products {} attention {} others {} exchange {}\n", table.location(), products, attention, others, predicted.exchange_seconds);
      if (std::getenv("SPLIT"))
        fmt::print("SPLIT {} passes {:.4f} axes {:.4f} update {:.4f} gathers {:.4f} sums {:.4f} bubble {:.4f} end {:.4f} mb {}x{}\n", table.location(), split.passes, split.axes, split.update, split.gathers, split.sums, split.bubble, split.end, plan.split.accumulation, plan.split.microbatch);
      out.push_back({mpt::program_of(row.text("source")), row.text("gpu"), table.location(),
                     *measured, predicted.seconds});
    } catch (parallel::error const& problem) {
      ++refused[problem.what()];
    }
  }
  return out;
}

void check(std::filesystem::path const& file, bool shows_rows) {
  std::map<std::string, int> refused;
  auto const rows = predict_rows(file, refused);
  if (shows_rows)
    for (auto const& r : rows)
      fmt::print("{} {} {} measured {:.4f} predicted {:.4f} ratio {:.4f}\n", r.source, r.gpu,
                 r.location, r.measured, r.predicted, r.measured / r.predicted);
  fmt::print("{:>5} {:>7} {:>8} {:>8} {:>8} {:>6}  source\n", "rows", "factor", "mean %", "worst %",
             "fitted", "tau");
  for (auto const& s : mpt::check_rows(rows))
    fmt::print("{:5} {:7.3f} {:8.1f} {:8.1f} {:8} {:6.2f}  {} on {} ({})\n", s.rows, s.factor,
               100 * s.mean_error, 100 * s.largest_error, s.fitted, s.tau, s.source, s.gpu,
               s.largest_at);
  for (auto const& [reason, count] : refused) fmt::print("{:5} rows not read: {}\n", count, reason);
}

void print(candidate const& c) {
  auto const& p = c.prediction;
  auto const share = [&](double seconds) { return 100 * seconds / p.seconds; };
  fmt::print(
      "{:9.4f} s  {:12.0f} tokens/s  MFU {:5.1f} %  {:>9}  passes {:4.1f} axes {:4.1f} update "
      "{:4.1f} gathers {:4.1f} "
      "sums {:4.1f} bubble {:4.1f} end {:4.1f}  mb {} x {}  {} | {}\n",
      p.seconds, p.tokens_per_second, 100 * p.utilisation,
      mpt::console::bytes(static_cast<double>(c.plan.memory.total())), share(p.split.passes),
      share(p.split.axes), share(p.split.update), share(p.split.gathers), share(p.split.sums),
      share(p.split.bubble), share(p.split.end), c.plan.split.accumulation, c.plan.split.microbatch,
      describe_layout(c.config.execution, c.plan.layout), fmt::join(c.settings, " "));
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path file, published;
  std::vector<std::string> overrides;
  bool shows_rows = false;
  CLI::App app{"Foretell a training run on a cluster: its fastest layouts, memory and time"};
  apps::add_examples(app, {"plan apps/configs/mpt/70b.yaml cluster=h100x8x64"});
  auto* const check_command =
      app.add_subcommand("check", "compare predictions with a table of published steps");
  check_command->add_option("table", published, "CSV file")->required()->check(CLI::ExistingFile);
  check_command->add_flag("--rows", shows_rows, "print every row");
  app.add_option("config", file, "training YAML")->check(CLI::ExistingFile);
  app.add_option("overrides", overrides, "key.sub=value, which replaces the YAML's value");
  apps::results_file json;
  json.add_to(app, "the plan");
  auto const body = [&] {
    if (check_command->parsed()) return check(published, shows_rows);
    auto const options = take_options(overrides);
    parallel::require(!options.cluster.empty(), "which cluster? write cluster=h100x8x64");
    auto const machines = mpt::read_cluster(
        options.cluster, options.network.empty() ? 0 : mpt::parse_rate(options.network));
    apps::training_file source(file);
    if (options.layout == "file") {
      auto const found = try_layout(source, overrides, {}, machines);
      parallel::require(found.has_value(), "does not fit");
      print(*found);
      for (auto const& [name, seconds] : found->prediction.by_operation)
        fmt::print("  {:24} {:.5f} s\n", name, seconds);
      return;
    }
    auto const config = source.load(overrides);
    std::vector<candidate> found;
    for (auto const& settings : layout_settings(config, machines))
      if (auto c = try_layout(source, overrides, settings, machines))
        found.push_back(*std::move(c));
    auto const by_speed = [](candidate const& c) { return c.prediction.seconds; };
    std::ranges::sort(found, {}, by_speed);
    if (found.size() > 10) found.resize(10);
    for (auto const& c : found) print(c);
  };
  return apps::run(app, argc, argv, true, body);
}
