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
                     100 / (1 + link.processor_share));
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
  parallel::require(links.device_link.rate > 0,
                    "measure: one rank has no links; give it two or more ranks");
  auto const& profile = run.summary.profile;
  with_element(config.execution.precision, [&]<class T>(T) {
    mpt::calibrate<T>(machines, config, run.plan, profile.streams.front().tasks,
                      static_cast<std::size_t>(profile.batches));
  });
  parallel::write_text_file(file, mpt::cluster_text(machines));
  std::string out;
  if (run.links.inside) out += describe("inside a machine", *run.links.inside);
  if (run.links.between) out += describe("between machines", *run.links.between);
  return out + fmt::format("measured: plan run.yaml cluster={}:{}\n", file.string(), run.nodes);
}

}  // namespace apps
