// plan: foretells a training run on a cluster that need not be there: the fastest layouts, what
// they need and what they wait for.
//
//   plan run.yaml cluster=h100x8x64                  the best layouts for 64 nodes of 8 H100
//   plan run.yaml cluster=h100x8x64 layout=file      the layout that the file has
//   plan check published.csv                         predictions of steps that others measured
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/plan/read_cluster.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <planner/best_layouts.hpp>
#include <planner/check_table.hpp>

namespace {

/// The overrides that are for the plan itself, taken out of those for the file.
struct plan_options {
  std::string cluster, network, layout;
};

plan_options take_options(std::vector<std::string>& overrides) {
  plan_options out;
  for (auto const& [key, target] :
       {std::pair{"cluster=", &out.cluster}, std::pair{"network=", &out.network},
        std::pair{"layout=", &out.layout}})
    std::erase_if(overrides, [key = std::string_view(key), target = target](auto const& text) {
      if (!text.starts_with(key)) return false;
      *target = text.substr(key.size());
      return true;
    });
  return out;
}

void print(apps::candidate const& c) {
  auto const& p = c.prediction;
  auto const share = [&](double seconds) { return 100 * seconds / p.seconds; };
  fmt::print(
      "{:9.4f} s  {:12.0f} tokens/s  MFU {:5.1f} %  {:>9}  passes {:4.1f} axes {:4.1f} update "
      "{:4.1f} gathers {:4.1f} sums {:4.1f} bubble {:4.1f} end {:4.1f}  mb {} x {}  {} | {}\n",
      p.seconds, p.tokens_per_second, 100 * p.utilisation,
      mpt::console::bytes(static_cast<double>(c.plan.memory.total())), share(p.split.passes),
      share(p.split.axes), share(p.split.update), share(p.split.gathers), share(p.split.sums),
      share(p.split.bubble), share(p.split.end), c.plan.split.accumulation, c.plan.split.microbatch,
      describe_layout(c.config.execution, c.plan.layout), fmt::join(c.settings, " "));
}

void foretell(std::filesystem::path const& file, std::vector<std::string> overrides) {
  auto const options = take_options(overrides);
  parallel::require(!options.cluster.empty(), "plan: which cluster? write cluster=h100x8x64");
  auto const machines = mpt::read_cluster(
      options.cluster, options.network.empty() ? 0 : mpt::parse_rate(options.network));
  apps::training_file source(file);
  if (options.layout == "file") {
    auto const found = apps::predict_settings(source, overrides, {}, machines);
    require_fits(found.plan);
    print(found);
    for (auto const& [name, seconds] : found.prediction.by_operation)
      fmt::print("  {:24} {:.5f} s\n", name, seconds);
    return;
  }
  auto const found = apps::best_layouts(source, overrides, machines);
  for (std::size_t i = 0; i < std::min<std::size_t>(10, found.size()); ++i) print(found[i]);
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path file, published;
  std::vector<std::string> overrides;
  CLI::App app{"Foretell a training run on a cluster: its fastest layouts, memory and time"};
  apps::add_examples(
      app, {"plan apps/configs/mpt/70b.yaml cluster=h100x8x64", "plan check published_steps.csv"});
  apps::results_file json;
  auto* const check =
      app.add_subcommand("check", "compare predictions with a table of published steps");
  check->add_option("table", published, "CSV file")->required()->check(CLI::ExistingFile);
  json.add_to(*check, "every row's prediction");
  app.add_option("config", file, "training YAML")->check(CLI::ExistingFile);
  app.add_option("overrides", overrides,
                 "cluster=NAME, network=RATE, and key.sub=value, which replaces the YAML's value");
  auto const body = [&] {
    if (check->parsed()) return apps::check_table(published, json);
    parallel::require(!file.empty(), "plan: which run? give a training YAML");
    foretell(file, overrides);
  };
  return apps::run(app, argc, argv, true, body);
}
