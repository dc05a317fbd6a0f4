#include <planner/print_run.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>

#include <cli/with_element.hpp>

namespace apps {
namespace {

[[nodiscard]] double device_hours(mpt::run_duration const& run,
                                  parallel::cluster::cluster const& machines) {
  return run.total() / 3600 * machines.devices();
}

/// As console::duration, with tenths of a second below ten.
[[nodiscard]] std::string time_text(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : mpt::console::duration(seconds);
}

[[nodiscard]] std::string saving_text(mpt::run_duration const& run) {
  if (run.saves == 0) return "no save_folder";
  return fmt::format(
      "{} of {}, each written in {} {}{}", run.saves, mpt::console::bytes(run.checkpoint_bytes),
      time_text(run.checkpoint_seconds),
      run.saves_in_background ? "while training goes on" : "while training stands",
      run.local_saves == 0 ? "" : fmt::format("; {} more on the nodes' disks", run.local_saves));
}

[[nodiscard]] std::string failure_text(mpt::run_duration const& run) {
  if (std::isinf(run.failure_interval)) return "nodes never fail";
  return fmt::format("{:.1f} are expected, one every {}", run.expected_failures(),
                     mpt::console::duration(run.failure_interval));
}

}  // namespace

std::optional<mpt::run_duration> duration_of(candidate const& c,
                                             parallel::cluster::cluster const& machines) {
  return with_element(c.config.execution.precision, [&]<class T>(T) {
    auto const work = mpt::work_of_run<T>(c.config, c.plan, c.prediction.seconds, machines);
    return mpt::duration_of(c.config, c.plan, work, machines);
  });
}

void print_duration(std::optional<mpt::run_duration> const& run,
                    parallel::cluster::cluster const& machines) {
  if (!run) {
    fmt::print(
        "max_duration is in epochs: how long the run takes needs its data; write it in "
        "batches (ba)\n");
    return;
  }
  double const hours = device_hours(*run, machines);
  fmt::print("the run: {} steps, {:.1f} days, {} device hours, goodput {:.1f} %",
             mpt::console::grouped(run->batches), run->total() / 86400,
             mpt::console::grouped(static_cast<std::int64_t>(hours)), 100 * run->goodput());
  if (machines.price > 0)
    fmt::print(", {} at {} an hour",
               mpt::console::grouped(static_cast<std::int64_t>(hours * machines.price)),
               machines.price);
  fmt::print("\n\n");
  auto const evaluations =
      fmt::format("{} of {}", run->evaluations, time_text(run->evaluation_seconds));
  std::vector<std::vector<std::string>> rows{{"part of the run", "time", "share", ""}};
  for (auto const& [name, seconds, text] :
       {std::tuple{"start and loading", run->start, std::string()},
        {"training", run->training, std::string()},
        {"evaluation", run->evaluation, evaluations},
        {"saving", run->saving, saving_text(*run)},
        {"failures", run->failures, failure_text(*run)}})
    rows.push_back(
        {name, time_text(seconds), fmt::format("{:.1f} %", 100 * seconds / run->total()), text});
  fmt::print("{}\n", mpt::console::markdown_table(rows, {false, true, true, false}));
  for (auto const& note : run->notes) fmt::print("note: {}\n", note);
  if (run->better_save_interval)
    fmt::print("save_interval={}ba loses less: goodput {:.1f} %\n", *run->better_save_interval,
               100 * run->better_goodput);
}

nlohmann::ordered_json json_of(mpt::run_duration const& run,
                               parallel::cluster::cluster const& machines) {
  double const hours = device_hours(run, machines);
  nlohmann::ordered_json out{{"steps", run.batches},
                             {"days", run.total() / 86400},
                             {"device_hours", hours},
                             {"goodput", run.goodput()}};
  if (machines.price > 0) out["cost"] = hours * machines.price;
  out["seconds"] = {{"start", run.start},
                    {"training", run.training},
                    {"evaluation", run.evaluation},
                    {"saving", run.saving},
                    {"failures", run.failures}};
  out["evaluations"] = run.evaluations;
  out["evaluation_seconds"] = run.evaluation_seconds;
  out["saves"] = run.saves;
  out["local_saves"] = run.local_saves;
  out["checkpoint_bytes"] = run.checkpoint_bytes;
  out["checkpoint_seconds"] = run.checkpoint_seconds;
  out["saves_in_background"] = run.saves_in_background;
  if (!std::isinf(run.failure_interval)) out["expected_failures"] = run.expected_failures();
  if (run.better_save_interval) {
    out["better_save_interval"] = fmt::format("{}ba", *run.better_save_interval);
    out["better_goodput"] = run.better_goodput;
  }
  out["notes"] = run.notes;
  return out;
}

}  // namespace apps
