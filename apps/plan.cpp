// plan: foretells a training run on a cluster that need not be there: the fastest layouts, what
// they need and what they wait for.
//
//   plan run.yaml cluster=h100x8x64                  the best layouts for 64 nodes of 8 H100
//   plan run.yaml cluster=h100x8x64 layout=file      the layout that the file has
//   plan check published.csv                         predictions of steps and memory of others
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>
#include <mpt/plan/known_programs.hpp>
#include <mpt/plan/read_cluster.hpp>
#include <mpt/plan/trace.hpp>
#include <mpt/yaml/scalar.hpp>

#include <cli/app.hpp>
#include <cli/report_file.hpp>
#include <cli/results_file.hpp>
#include <cli/with_element.hpp>
#include <planner/best_layouts.hpp>
#include <planner/check_table.hpp>
#include <planner/print_layouts.hpp>
#include <planner/print_run.hpp>
#include <planner/print_step.hpp>
#include <planner/run_file.hpp>

namespace {

/// The settings that are for the plan itself, taken out of those for the file.
struct plan_settings {
  std::string cluster, network, layout, scale, price, program;
};

plan_settings take_settings(std::vector<std::string>& overrides) {
  plan_settings out;
  std::pair<std::string_view, std::string*> const keys[] = {
      {"cluster=", &out.cluster}, {"network=", &out.network}, {"layout=", &out.layout},
      {"scale=", &out.scale},     {"price=", &out.price},     {"program=", &out.program}};
  for (auto const& [key, target] : keys)
    std::erase_if(overrides, [key = key, target = target](std::string const& text) {
      if (!text.starts_with(key)) return false;
      *target = text.substr(key.size());
      return true;
    });
  return out;
}

/// The numbers of nodes of "1,2,4".
std::vector<int> node_counts(std::string_view text) {
  std::vector<int> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    auto const end = std::min(text.find(',', begin), text.size());
    auto const count = mpt::parse_integer(text.substr(begin, end - begin));
    parallel::require(count && *count >= 1 && *count <= 1 << 20, "scale=", text,
                      ": expected numbers of nodes such as 1,2,4,8");
    out.push_back(static_cast<int>(*count));
    begin = end + 1;
  }
  return out;
}

[[noreturn]] void fail_to_fit(apps::training_file& source,
                              std::vector<std::string> const& overrides,
                              parallel::cluster::cluster machines) {
  auto const name = machines.name;
  for (int nodes = 2 * machines.nodes; nodes <= 4096; nodes *= 2) {
    machines.nodes = nodes;
    if (!apps::best_layouts(source, overrides, machines).empty())
      parallel::fail("plan: no layout fits on ", name, "; on ", nodes, " nodes one does");
  }
  parallel::fail("plan: no layout fits on ", name,
                 " or on more such nodes; take devices with more memory, or a smaller model or "
                 "max_seq_len");
}

/// Tokens a second by the number of nodes, against the bar of 80 % of the smallest number's rate.
void print_scaling(apps::training_file& source, std::vector<std::string> const& overrides,
                   parallel::cluster::cluster machines, std::vector<int> const& counts) {
  std::vector<std::vector<std::string>> rows{
      {"nodes", "devices", "best layout", "tokens/s", "of linear", "80 %", "days"}};
  double first_rate = 0;
  for (int const nodes : counts) {
    machines.nodes = nodes;
    auto const found = apps::best_layouts(source, overrides, machines);
    if (found.empty()) {
      rows.push_back(
          {std::to_string(nodes), std::to_string(machines.devices()), "none fits", "", "", "", ""});
      continue;
    }
    double const rate = found.front().prediction.tokens_per_second;
    if (first_rate == 0) first_rate = rate / nodes;
    double const share = rate / nodes / first_rate;
    auto const run = apps::duration_of(found.front(), machines);
    rows.push_back({std::to_string(nodes), std::to_string(machines.devices()),
                    name_of_layout(found.front()),
                    mpt::console::grouped(static_cast<std::int64_t>(rate)),
                    fmt::format("{:.0f} %", 100 * share), share >= 0.8 ? "yes" : "no",
                    run ? fmt::format("{:.1f}", run->total() / 86400) : ""});
  }
  fmt::print("{}",
             mpt::console::markdown_table(rows, {true, true, false, true, true, false, true}));
}

/// The trace of a step of a run.
std::string trace_text(apps::candidate const& c, parallel::cluster::cluster const& machines) {
  return apps::with_element(c.config.execution.precision, [&]<class T>(T) {
    return trace_of(mpt::simulate_run<T>(c.config, c.plan, machines)).dump();
  });
}

/// What a plan writes and draws; "": no file.
struct plan_output {
  std::filesystem::path trace;
  std::filesystem::path run;  ///< the training YAML of the best layout
  bool draws = false;         ///< the pipeline, also where it has one rank
};

void foretell(std::filesystem::path const& file, std::vector<std::string> overrides,
              apps::results_file const& json, plan_output const& output) {
  apps::check_report_file("--trace", output.trace, {file});
  apps::check_report_file("--write", output.run, {file});
  auto const settings = take_settings(overrides);
  parallel::require(!settings.cluster.empty(), "plan: which cluster? write cluster=h100x8x64");
  auto machines = mpt::read_cluster(
      settings.cluster, settings.network.empty() ? 0 : mpt::parse_rate(settings.network));
  if (!settings.price.empty()) {
    auto const price = mpt::parse_number(settings.price);
    parallel::require(price && *price > 0, "price=", settings.price,
                      ": expected the price of a device for an hour");
    machines.price = *price;
  }
  if (!settings.program.empty())
    machines.program = mpt::known_programs().costs_by_name(settings.program, machines.device.name);
  parallel::require(settings.layout.empty() || settings.layout == "file",
                    "layout=", settings.layout,
                    ": there is layout=file, the layout that the file has");
  apps::training_file source(file);
  if (!settings.scale.empty())
    return print_scaling(source, overrides, machines, node_counts(settings.scale));
  std::vector<apps::candidate> found;
  if (settings.layout == "file") {
    found.push_back(apps::predict_settings(source, overrides, {}, machines));
    auto const& c = found.front();
    require_fits(c.plan);
    parallel::require(c.fits, "plan: the host needs ",
                      mpt::console::bytes(static_cast<double>(c.plan.memory.offloaded)),
                      " for what a rank moves there, but a rank's share of node.memory is ",
                      mpt::console::bytes(static_cast<double>(machines.host_memory_of_device())),
                      "; leave offload_optimizer out, or take more nodes");
  } else {
    found = apps::best_layouts(source, overrides, machines);
    if (found.empty()) fail_to_fit(source, overrides, machines);
  }
  nlohmann::ordered_json document{{"cluster", machines.name}, {"devices", machines.devices()}};
  auto& layouts = document["layouts"] = nlohmann::ordered_json::array();
  for (auto const& c : found) layouts.push_back(json_of(c));
  auto const run = apps::duration_of(found.front(), machines);
  if (run) document["run"] = apps::json_of(*run, machines);
  json.write(document);
  if (!output.trace.empty())
    apps::write_report_file(output.trace, trace_text(found.front(), machines));
  if (!output.run.empty())
    apps::write_report_file(output.run,
                            apps::run_file_text(file, overrides, found.front(), machines));
  if (json.is_printed_alone()) return;
  fmt::print("{} on {}: {} devices, {} each\n\n", found.front().config.run.name, machines.name,
             machines.devices(),
             mpt::console::bytes(static_cast<double>(machines.available_memory())));
  print_best(found, machines);
  apps::print_step(found.front());
  if (output.draws || found.front().config.execution.parallelism.pipeline > 1)
    apps::draw_pipeline(found.front(), machines);
  apps::print_duration(run, machines);
  print_sensitivity(found.front(), machines);
  auto const program = apps::program_of_run(found.front().config);
  if (!output.run.empty())
    fmt::print("run it with\n  {} {}\n", program, output.run.string());
  else if (!found.front().settings.empty())
    fmt::print("run it with\n  {} {} {}\n", program, file.string(),
               fmt::join(found.front().settings, " "));
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path file, published;
  plan_output output;
  std::vector<std::string> overrides;
  CLI::App app{"Foretell a training run on a cluster: its fastest layouts, memory and time"};
  apps::add_examples(
      app, {"plan apps/configs/mpt/70b.yaml cluster=h100x8x64", "plan check published_steps.csv"});
  apps::results_file plan_json, json;
  std::string shown;
  auto* const check = app.add_subcommand("check",
                                         "compare predictions with a table of published steps, "
                                         "layouts that fit or not, or allocated bytes");
  check->add_option("table", published, "CSV file")->required()->check(CLI::ExistingFile);
  json.add_to(*check, "every row's prediction");
  plan_json.add_to(app, "every layout that fits");
  app.add_option("--write", output.run,
                 "write the best layout's training YAML, which pretrain or finetune runs");
  app.add_option("--trace", output.trace,
                 "write a step of the best layout to this file, which Chrome and Perfetto show");
  app.add_flag("--draw", output.draws,
               "draw a step in text, as is done where the best layout has a pipeline");
  app.add_option("--show-cluster", shown, "print a known cluster as a file to change");
  app.add_option("config", file, "training YAML")->check(CLI::ExistingFile);
  app.add_option("overrides", overrides,
                 "cluster=NAME, network=RATE, program=NAME, and key.sub=value, which replaces the "
                 "YAML's value");
  auto const body = [&] {
    if (check->parsed()) return apps::check_table(published, json);
    if (!shown.empty()) return fmt::print("{}", mpt::cluster_file(shown));
    parallel::require(!file.empty(), "plan: which run? give a training YAML");
    foretell(file, overrides, plan_json, output);
  };
  return apps::run(app, argc, argv, true, body);
}
