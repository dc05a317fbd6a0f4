// best_layouts: `plan`: the fastest layouts of a run on a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/plan/predict_run.hpp>
#include <mpt/train/setup/fitting_settings.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/cluster/cluster.hpp>

#include <inputs/hub_names.hpp>

namespace apps {

/// A run with some settings on a cluster, as it is expected to be.
struct candidate {
  mpt::settings settings{};  ///< in addition to those of the file and the command line
  mpt::train_config config{};
  mpt::run_plan plan{};
  bool fits = false;  ///< in the memory of the devices, and of the host
  mpt::prediction prediction{};
};

/// Reads the file of a run that is only planned: what the plan does not need is not downloaded.
[[nodiscard]] mpt::train_config load_plan(training_file& source,
                                          std::vector<std::string> overrides);

/// The run with additional settings, predicted where it fits. Throws `error` for settings that
/// cannot be.
[[nodiscard]] candidate predict_settings(training_file& source,
                                         std::vector<std::string> const& overrides,
                                         mpt::settings settings,
                                         parallel::cluster::cluster const& machines);

/// The layouts that fit, the fastest first, of all that the cluster allows; the best of them with
/// the variations that make them faster. Only where nothing fits are the optimizer's states kept in
/// the host's memory.
[[nodiscard]] std::vector<candidate> best_layouts(training_file& source,
                                                  std::vector<std::string> const& overrides,
                                                  parallel::cluster::cluster const& machines);

}  // namespace apps
