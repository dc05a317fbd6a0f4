// run_duration: how long a whole run takes on a cluster: its steps, evaluations and checkpoints,
// the start, and what failures of nodes cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/plan/predict_run.hpp>
#include <mpt/train/setup/checkpoint_bytes.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/cluster/cluster.hpp>

namespace mpt {

/// What a run does, without failures.
struct run_work {
  double step_seconds = 0;
  std::vector<double> evaluation_rounds{};  ///< seconds of one, by evaluation set; see predict_run
  double checkpoint_bytes = 0;
  double copied_bytes = 0;  ///< of a checkpoint, by the rank that holds the most of it
  double loaded_bytes = 0;  ///< of the weights that the run begins with
};

/// The time of a run. What its settings leave open is in `notes`, and counts nothing.
struct run_duration {
  std::int64_t batches = 0;
  std::int64_t evaluations = 0;
  std::int64_t saves = 0;         ///< into save_folder
  std::int64_t local_saves = 0;   ///< onto the nodes' disks alone
  double evaluation_seconds = 0;  ///< of one evaluation, on all sets
  double checkpoint_bytes = 0;
  double checkpoint_seconds = 0;  ///< of writing one, while training goes on or stands
  bool saves_in_background = false;
  /// Seconds of the whole run, by what it does
  double start = 0;  ///< of the programs, with loading
  double training = 0;
  double evaluation = 0;
  double saving = 0;            ///< for which training stands
  double failures = 0;          ///< work done twice, and restarts
  double failure_interval = 0;  ///< mean seconds between failures of any node; may be infinite
  std::vector<std::string> notes{};
  /// The interval of saves at which the least time is lost, in batches, and the goodput with it;
  /// only where that differs much from the run's.
  std::optional<std::int64_t> better_save_interval{};
  double better_goodput = 0;

  [[nodiscard]] double total() const { return start + training + evaluation + saving + failures; }
  /// The share of the time in which the run trains.
  [[nodiscard]] double goodput() const { return training / total(); }
  [[nodiscard]] double expected_failures() const { return total() / failure_interval; }
};

/// The number of batches, of `total`, after which something with this interval is due: with the
/// last batch, and where a multiple of the interval falls into a batch (mpt/yaml/time.hpp).
[[nodiscard]] std::int64_t times_due(double interval_in_batches, std::int64_t total);

/// The time of a run that does `work`; none where its number of steps needs its data. Throws
/// `error` where nodes fail so often that the run would not end.
[[nodiscard]] std::optional<run_duration> duration_of(train_config const& config,
                                                      run_plan const& plan, run_work const& work,
                                                      cluster::cluster const& machines);

/// What a planned run does whose steps take `step_seconds`. `T`: the elements of the model.
template <class T>
[[nodiscard]] run_work work_of_run(train_config const& config, run_plan const& plan,
                                   double step_seconds, cluster::cluster const& machines) {
  run_work out{.step_seconds = step_seconds,
               .checkpoint_bytes = static_cast<double>(checkpoint_bytes<T>(config))};
  for (auto const& loader : config.data.eval_loaders)
    out.evaluation_rounds.push_back(
        simulate_evaluation<T>(config, plan, loader, machines).times.seconds);
  for (auto const& rank : plan.by_pipeline_rank)
    out.copied_bytes =
        std::max(out.copied_bytes, static_cast<double>(bytes_to_save(config.checkpoint, rank)));
  if (!config.checkpoint.pretrained.empty() || !config.checkpoint.load_path.empty())
    out.loaded_bytes =
        static_cast<double>(sizeof(T)) * static_cast<double>(parameter_count(config.model));
  return out;
}

}  // namespace mpt
