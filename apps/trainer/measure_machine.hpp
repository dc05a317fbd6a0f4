// The file that measure=FILE asks for: the machine as a short run has measured it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/setup/measure_links.hpp>
#include <mpt/train/setup/run_plan.hpp>

namespace apps {

/// The configuration of a run that only measures: a few batches, of which nothing is saved.
[[nodiscard]] mpt::train_config measuring_config(mpt::train_config config);

/// What a step of rank 0 is predicted to take on the machines that the configuration names
/// (`cluster`); none where it names none. Throws where these are fewer than the run's ranks.
[[nodiscard]] std::optional<mpt::step_seconds> expected_step(mpt::train_config const& config,
                                                             mpt::run_plan const& plan);

/// "predicted 0.41 s a step, measured 0.43 s (+4.9 %)", and where the run saves, the file of the
/// machines as its operations measured them, which is written; "" where nothing was compared.
[[nodiscard]] std::string compare_with_prediction(mpt::train_config const& config,
                                                  mpt::run_plan const& plan,
                                                  mpt::run_summary const& summary);

/// What a short run has found of the machines that it ran on.
struct measured_run {
  mpt::train_config const& config;
  mpt::run_plan const& plan;
  mpt::run_summary const& summary;
  mpt::measured_links const& links;
  int nodes = 1;
  std::size_t device_memory = 0;  ///< bytes that a rank may use
};

/// Writes the machines of a run into the file run.measure. Where the file exists, what was measured
/// now replaces what it says of the same shapes and links, and is added to the rest. Returns the
/// lines for the user.
[[nodiscard]] std::string write_machine(measured_run const& run);

}  // namespace apps
