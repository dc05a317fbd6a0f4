#include <trainer/measure_machine.hpp>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/plan/measured_machine.hpp>
#include <mpt/plan/read_cluster.hpp>
#include <mpt/plan/write_cluster.hpp>
#include <parallel/core/file.hpp>

#include <cli/with_element.hpp>

namespace apps {

namespace cluster = parallel::cluster;

namespace {

/// A line for the user about a link.
[[nodiscard]] std::string describe(std::string_view name, cluster::link const& link) {
  return fmt::format("{}: {} after {:.1f} us, while computations run at {:.0f} % of their speed\n",
                     name, mpt::console::bytes(link.rate) + "/s", 1e6 * link.latency,
                     100 * (1 - link.processor_share));
}

/// Adds to a description what the timed batches of a run have measured.
void calibrate(cluster::cluster& machines, mpt::train_config const& config,
               mpt::run_plan const& plan, mpt::run_profile const& profile) {
  with_element(config.execution.precision, [&]<class T>(T) {
    mpt::calibrate<T>(machines, config, plan, profile.streams.front().tasks,
                      static_cast<std::size_t>(profile.batches));
  });
}

}  // namespace

mpt::train_config measuring_config(mpt::train_config config) {
  config.run.max_duration = {8, mpt::time_unit::batch};
  config.checkpoint.save_folder.clear();
  config.checkpoint.local_save_folder.clear();
  config.checkpoint.load_path.clear();
  config.checkpoint.autoresume = false;
  config.evaluation = {};
  config.evaluation.eval_interval.count = 0;
  config.data.eval_loaders.clear();
  config.output.metrics_file.clear();
  config.output.loggers = {};
  config.callbacks = {};
  return config;
}

std::optional<mpt::step_seconds> expected_step(mpt::train_config const& config,
                                               mpt::run_plan const& plan) {
  if (config.run.cluster.empty()) return std::nullopt;
  auto const machines = mpt::read_cluster(config.run.cluster);
  parallel::require(machines.devices() >= plan.layout.ranks(), "cluster: ", config.run.cluster,
                    " has ", machines.devices(), " devices, but the run has ", plan.layout.ranks(),
                    " ranks");
  return with_element(config.execution.precision, [&]<class T>(T) {
    auto const run = mpt::simulate_run<T>(config, plan, machines);
    return mpt::step_of_rank(run, 0);
  });
}

std::string compare_with_prediction(mpt::train_config const& config, mpt::run_plan const& plan,
                                    mpt::run_summary const& summary) {
  if (!summary.expected_step || !summary.measured_step) return {};
  double const expected = summary.expected_step->total, measured = summary.measured_step->total;
  auto out = fmt::format("predicted {:.3g} s a step, measured {:.3g} s ({:+.1f} %)\n", expected,
                         measured, 100 * (measured / expected - 1));
  if (config.checkpoint.save_folder.empty()) return out;
  auto machines = mpt::read_cluster(config.run.cluster);
  calibrate(machines, config, plan, summary.profile);
  auto const file = std::filesystem::path(config.checkpoint.save_folder) / "machine.yaml";
  parallel::write_text_file(file, mpt::cluster_text(machines));
  return out + fmt::format("the rates of this run for the next plan: cluster={}\n", file.string());
}

std::string write_machine(measured_run const& run) {
  auto const& config = run.config;
  std::filesystem::path const file = config.run.measure;
  cluster::cluster machines;
  if (std::filesystem::exists(file)) machines = mpt::read_cluster(file.string());
  int const ranks = run.plan.layout.ranks();
  machines.nodes = run.nodes;
  machines.devices_on_node = ranks / run.nodes;
  machines.device.memory = run.device_memory;
  machines.device.peak = run.summary.peak_flops / ranks;
  machines.jitter = run.links.jitter;
  auto& links = machines.links;
  if (run.links.inside) links.device_link = *run.links.inside;
  if (run.links.between) links.node_link = *run.links.between;
  if (links.device_link.rate == 0) links.device_link = links.node_link;
  if (links.node_link.rate == 0) links.node_link = links.device_link;
  calibrate(machines, config, run.plan, run.summary.profile);
  parallel::write_text_file(file, mpt::cluster_text(machines));
  std::string out;
  if (run.links.inside) out += describe("inside a machine", *run.links.inside);
  if (run.links.between) out += describe("between machines", *run.links.between);
  return out + fmt::format("measured: plan run.yaml cluster={}:{}\n", file.string(), run.nodes);
}

}  // namespace apps
