#include <mpt/plan/run_duration.hpp>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <mpt/config/model/sizes.hpp>
#include <mpt/console/format.hpp>
#include <mpt/train/data/training_data.hpp>
#include <mpt/yaml/time.hpp>
#include <parallel/predict/interrupted_work.hpp>

namespace mpt {
namespace {

/// A run that takes longer by this factor than without failures is refused.
constexpr double longest_factor = 100;

/// The batches of an evaluation set that one data rank reads; none where that needs the set.
[[nodiscard]] std::optional<double> evaluation_batches_of_rank(train_config const& config,
                                                               loader_config const& loader,
                                                               int data_ranks) {
  auto const limit = config.evaluation.eval_subset_num_batches;
  std::optional<double> sequences;
  bool const is_local =
      !loader.finetuning && std::ranges::all_of(loader.streams, [](stream_config const& stream) {
        return stream.remote.empty();
      });
  if (is_local) try {
      sequences = static_cast<double>(open_streams(loader, config.model.vocab_size).size());
    } catch (parallel::error const&) {  // the set is on another machine
    }
  if (!sequences && limit < 0) return std::nullopt;
  double const device_batch = static_cast<double>(config.evaluation.device_eval_batch_size);
  double batches = sequences ? std::ceil(*sequences / (device_batch * data_ranks)) : 1e18;
  if (limit >= 0) {
    double const ranks = is_canonical(config.execution) ? data_ranks : 1;
    batches = std::min(batches, std::ceil(static_cast<double>(limit) / ranks));
  }
  return batches;
}

/// The duration of one run, filled in part by part.
class duration_estimate {
 public:
  duration_estimate(train_config const& config, run_plan const& plan, run_work const& work,
                    cluster::cluster const& machines)
      : config_(config),
        plan_(plan),
        work_(work),
        machines_(machines),
        clock_(clock_of(config.data, config.run)) {}

  [[nodiscard]] run_duration estimate() && {
    out_.batches = total_batches(clock_);
    out_.training = static_cast<double>(out_.batches) * work_.step_seconds;
    out_.start = machines_.interruptions.start + load_seconds(work_.loaded_bytes);
    out_.failure_interval = machines_.interruptions.interval(machines_.nodes);
    auto const& examples = config_.data.train_loader.finetuning;
    if (examples && !examples->packing)
      out_.notes.push_back(
          fmt::format("examples count as max_seq_len, {} tokens; shorter ones take less time",
                      config_.data.train_loader.max_seq_len));
    add_evaluation();
    out_.checkpoint_bytes = work_.checkpoint_bytes;
    out_.checkpoint_seconds = machines_.disks.save_seconds(work_.checkpoint_bytes, machines_.nodes);
    out_.saves_in_background = plan_.saves_in_background;
    auto const& checkpoint = config_.checkpoint;
    if (!checkpoint.save_folder.empty()) {
      out_.saves = times(checkpoint.save_interval, "save_interval");
      if (!checkpoint.local_save_folder.empty())
        out_.local_saves = std::max<std::int64_t>(
            0, times(checkpoint.local_save_interval, "local_save_interval") - out_.saves);
    }
    out_.saving = saving_seconds(out_.saves, out_.local_saves);
    auto const lost = lost_seconds(out_.saves + out_.local_saves, out_.saving);
    require_end(lost);
    out_.failures = lost;
    if (out_.saves > 0 && out_.local_saves == 0) compare_save_interval();
    return std::move(out_);
  }

 private:
  /// How often something with this interval is due; 0 with a note where that needs the data.
  [[nodiscard]] std::int64_t times(time_value const& interval, char const* name) {
    if (interval.count <= 0) return 0;
    try {
      return times_due(in_batches(interval, clock_), out_.batches);
    } catch (parallel::error const&) {  // epochs
      out_.notes.push_back(
          fmt::format("{0}={1} is not counted, as it needs the data; write {0} in "
                      "batches (ba)",
                      name, to_string(interval)));
      return 0;
    }
  }

  void add_evaluation() {
    auto const& evaluation = config_.evaluation;
    int const data_ranks = mpt::data_ranks(plan_.layout);
    for (std::size_t i = 0; i < work_.evaluation_rounds.size(); ++i) {
      auto const& loader = config_.data.eval_loaders[i];
      auto const batches = evaluation_batches_of_rank(config_, loader, data_ranks);
      if (batches)
        out_.evaluation_seconds += work_.evaluation_rounds[i] *
                                   std::ceil(*batches / config_.execution.parallelism.pipeline);
      else
        out_.notes.push_back(fmt::format(
            "evaluation on {} is not counted, as the set is not here; eval_subset_num_batches=N "
            "says its batches",
            loader.label.empty() ? "eval_loader" : loader.label));
    }
    if (!evaluation.icl.tasks.empty())
      out_.notes.emplace_back("evaluation on tasks of in-context learning is not counted");
    if (config_.data.eval_loaders.empty()) return;
    out_.evaluations =
        times(evaluation.eval_interval, "eval_interval") + (evaluation.eval_first ? 1 : 0);
    out_.evaluation = static_cast<double>(out_.evaluations) * out_.evaluation_seconds;
  }

  /// Seconds for which so many saves stop training. In the background that is while slices are
  /// copied to the host's memory, while the save before is still being written, and at the end.
  [[nodiscard]] double saving_seconds(std::int64_t saves, std::int64_t local_saves) const {
    if (saves == 0) return 0;
    double const count = static_cast<double>(saves), local = static_cast<double>(local_saves);
    double const write = out_.checkpoint_seconds;
    // on the nodes' disks are two of each file
    double const local_write =
        2 * work_.checkpoint_bytes / (machines_.nodes * machines_.disks.node.save);
    if (!out_.saves_in_background) return count * write + local * local_write;
    double const between = (out_.training + out_.evaluation) / (count + local);
    double const copy = work_.copied_bytes / machines_.device.host_rate;
    return (count + local) * copy + (count - 1) * std::max(0.0, write - between) +
           local * std::max(0.0, local_write - between) + write;
  }

  /// Seconds that failures are expected to cost when the work can continue from `saves` points.
  [[nodiscard]] double lost_seconds(std::int64_t saves, double saving) const {
    double const work = out_.training + out_.evaluation + saving;
    predict::interrupted_work const interrupted{
        .seconds = work,
        .interval = saves > 0 ? work / static_cast<double>(saves) : work,
        .restart = restart_seconds(),
        .failure_interval = out_.failure_interval};
    return interrupted.expected_seconds() - work;
  }

  /// Seconds from a failure until the run goes on. A save that is still being written is lost.
  [[nodiscard]] double restart_seconds() const {
    bool const saves = !config_.checkpoint.save_folder.empty();
    return machines_.interruptions.restart + machines_.interruptions.start +
           (saves ? load_seconds(work_.checkpoint_bytes) : load_seconds(work_.loaded_bytes)) +
           (saves && out_.saves_in_background ? out_.checkpoint_seconds : 0);
  }

  [[nodiscard]] double load_seconds(double bytes) const {
    return machines_.disks.load_seconds(bytes, machines_.nodes);
  }

  /// The interval between saves at which the least time is lost, in batches; not shorter than a
  /// save takes.
  [[nodiscard]] std::int64_t best_save_interval() const {
    double const stop = out_.saves_in_background ? work_.copied_bytes / machines_.device.host_rate
                                                 : out_.checkpoint_seconds;
    double const seconds =
        std::max(predict::best_save_interval(stop, out_.failure_interval), out_.checkpoint_seconds);
    double const batches = std::ceil(seconds / work_.step_seconds);
    return batches < static_cast<double>(out_.batches) ? static_cast<std::int64_t>(batches)
                                                       : out_.batches;
  }

  void require_end(double lost) const {
    double const work = out_.training + out_.evaluation + out_.saving;
    if (lost <= (longest_factor - 1) * work) return;
    auto const points = std::max<std::int64_t>(1, out_.saves + out_.local_saves);
    parallel::fail("plan: one of ", machines_.nodes, " nodes fails every ",
                   console::duration(out_.failure_interval), ", but the run ",
                   out_.saves == 0 ? "does not save and takes " : "saves every ",
                   console::duration(work / static_cast<double>(points)), " and needs ",
                   console::duration(restart_seconds()),
                   " to go on after a failure: it would not end; ",
                   out_.saves == 0 ? "give save_folder and save_interval=" : "try save_interval=",
                   best_save_interval(), "ba, or a cluster with a larger failures.node_days");
  }

  /// Notes a better interval of saves where it differs from the run's by a factor of two or more
  /// and saves at least a thousandth of the time.
  void compare_save_interval() {
    auto const best = best_save_interval();
    double const now = in_batches(config_.checkpoint.save_interval, clock_);
    double const ratio = static_cast<double>(best) / now;
    if (ratio > 0.5 && ratio < 2) return;
    auto other = out_;
    auto const saves = times_due(static_cast<double>(best), out_.batches);
    other.saving = saving_seconds(saves, 0);
    other.failures = lost_seconds(saves, other.saving);
    if (other.goodput() < out_.goodput() + 0.001) return;
    out_.better_save_interval = best;
    out_.better_goodput = other.goodput();
  }

  train_config const& config_;
  run_plan const& plan_;
  run_work const& work_;
  cluster::cluster const& machines_;
  training_clock clock_;
  run_duration out_{};
};

}  // namespace

std::int64_t times_due(double interval_in_batches, std::int64_t total) {
  double const batches = static_cast<double>(total);
  if (interval_in_batches <= 1) return total;
  double const multiples = std::floor(batches / interval_in_batches);
  bool const last_is_due = multiples * interval_in_batches > batches - 1;
  return static_cast<std::int64_t>(multiples) + (last_is_due ? 0 : 1);
}

std::optional<run_duration> duration_of(train_config const& config, run_plan const& plan,
                                        run_work const& work, cluster::cluster const& machines) {
  if (config.run.max_duration.unit == time_unit::epoch) return std::nullopt;
  return duration_estimate(config, plan, work, machines).estimate();
}

}  // namespace mpt
