// `loggers`: where a run's metrics go besides the console and metrics_file, under Composer's names.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/written_keys.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// A tracker with the interface of W&B's Python client: wandb or trackio. Blank texts are left to
/// the client, which takes them from its environment.
struct python_tracker_config {
  std::string module = "wandb";    ///< the Python module
  std::string python = "python3";  ///< the interpreter that has the module
  std::string project = {}, entity = {}, group = {};
  std::string name = {};  ///< of the run
  std::vector<std::string> tags = {};
  std::string id = {};    ///< of a run to go on with; blank: a new one, or that of the resumed run
  std::string mode = {};  ///< online, offline or disabled
  std::string dir = {};   ///< folder of the client's files
  std::string job_type = {}, notes = {};
  std::string resume = {};  ///< allow, must, never or auto

  friend bool operator==(python_tracker_config const&, python_tracker_config const&) = default;
};

/// An MLflow tracking server, reached by its REST interface.
struct mlflow_config {
  std::string tracking_uri = {};     ///< blank: $MLFLOW_TRACKING_URI
  std::string experiment_name = {};  ///< blank: $MLFLOW_EXPERIMENT_NAME, or Composer's default
  std::string run_name = {};
  std::string run_group = {};  ///< becomes the tag run_group
  std::vector<std::pair<std::string, std::string>> tags = {};
  std::vector<std::string> ignore_metrics = {};          ///< patterns of names with * and ?
  std::vector<std::string> ignore_hyperparameters = {};  ///< likewise
  std::vector<std::pair<std::string, std::string>> rename_metrics = {};
  double buffer_seconds = 10;  ///< the longest time between two requests with metrics

  friend bool operator==(mlflow_config const&, mlflow_config const&) = default;
};

/// The loggers of a run, each where the configuration names it.
struct loggers_config {
  std::optional<std::string> tensorboard;  ///< folder of the run's event files
  std::optional<std::string> csv;          ///< file of a table
  std::vector<python_tracker_config> python_trackers;
  std::optional<mlflow_config> mlflow;
  /// The settings of the run as they were written, which its journal and its trackers show. The
  /// program that reads the file sets them.
  std::vector<written_key> settings;

  /// Whether metrics go to another process.
  [[nodiscard]] bool has_trackers() const { return !python_trackers.empty() || mlflow; }

  /// Whether the same goes to the same places; settings without effect make no difference.
  friend bool operator==(loggers_config const& a, loggers_config const& b) {
    return a.tensorboard == b.tensorboard && a.csv == b.csv &&
           a.python_trackers == b.python_trackers && a.mlflow == b.mlflow;
  }
};

/// Reads `loggers` of a run of that name, which saves into `save_folder` ("": nowhere).
[[nodiscard]] loggers_config read_loggers(config_reader reader, std::string const& run_name,
                                          std::string const& save_folder = {});

}  // namespace mpt
