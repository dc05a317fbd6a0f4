#include <planner/compare_layout.hpp>

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <mpt/plan/read_cluster.hpp>
#include <mpt/yaml/scalar.hpp>

#include <planner/best_layouts.hpp>
#include <planner/print_layouts.hpp>

namespace apps {
namespace {

/// The share of the best layout's step by which another one must be longer to be named.
constexpr double far_from_best = 0.2;

}  // namespace

std::string cluster_of(mpt::run_config const& run, run_machines const& machines) {
  if (!run.cluster.empty()) return run.cluster;
  auto const device = mpt::known_device_in(machines.device);
  parallel::require(!device.empty(), "plan=true: how fast ", machines.device,
                    " is, is not known; measure it by a run with measure=machine.yaml, then give "
                    "cluster=machine.yaml");
  return fmt::format("{}x{}x{}", device, machines.ranks / machines.nodes, machines.nodes);
}

std::string compare_layout(training_file& source, std::vector<std::string> const& overrides,
                           std::string const& cluster, int ranks) {
  auto const machines = mpt::read_cluster(cluster);
  parallel::require(machines.devices() == ranks, "cluster=", cluster, " has ", machines.devices(),
                    " devices, but the run has ", ranks, " ranks");
  auto const found = best_layouts(source, overrides, machines);
  if (found.empty()) return fmt::format("plan: by {} no layout fits", cluster);
  auto const& best = found.front();
  auto const current = predict_settings(source, overrides, {}, machines);
  auto const better = fmt::format("{}: {:.3f} s a step; set {}", name_of_layout(best),
                                  best.prediction.seconds, fmt::join(best.settings, " "));
  if (!current.fits)
    return fmt::format("plan: by {} this layout does not fit, but {}", cluster, better);
  double const longer = current.prediction.seconds / best.prediction.seconds - 1;
  if (longer < far_from_best)
    return fmt::format("plan: by {} no layout is much faster than this one, {:.3f} s a step",
                       cluster, current.prediction.seconds);
  return fmt::format("plan: by {} a step of this layout takes {:.3f} s, {:.0f} % more than {}",
                     cluster, current.prediction.seconds, 100 * longer, better);
}

}  // namespace apps
