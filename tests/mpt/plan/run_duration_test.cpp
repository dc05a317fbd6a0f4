#include <cmath>

#include <doctest/doctest.h>

#include <mpt/plan/read_cluster.hpp>
#include <mpt/plan/run_duration.hpp>
#include <mpt/yaml/time.hpp>

namespace run_duration_test {
namespace {

mpt::train_config config() {
  mpt::train_config out;
  out.run.max_duration = {1000, mpt::time_unit::batch};
  out.data.global_train_batch_size = 64;
  out.data.train_loader.max_seq_len = 2048;
  out.evaluation.eval_interval = {100, mpt::time_unit::batch};
  out.evaluation.eval_subset_num_batches = 7;
  out.data.eval_loaders.resize(1);
  out.data.eval_loaders[0].streams = {{.local = "a folder that is not here"}};
  out.checkpoint.save_folder = "run";
  out.checkpoint.save_interval = {300, mpt::time_unit::batch};
  return out;
}

mpt::run_plan plan(bool in_background) {
  mpt::run_plan out;
  out.layout = parallel::training_layout().with_degree<parallel::axis::shard>(64);
  out.saves_in_background = in_background;
  return out;
}

mpt::cluster::cluster machines() {
  auto out = mpt::read_cluster("h100x8x8");
  out.disks = {.node = {1e9, 2e9}, .shared = {4e9, 6e9}};
  out.interruptions.node_days = 0;
  return out;
}

mpt::run_work const work{.step_seconds = 2,
                         .evaluation_rounds = {0.5},
                         .checkpoint_bytes = 40e9,
                         .copied_bytes = 5e9,
                         .loaded_bytes = 12e9};

TEST_CASE("times due: as many as the training loop finds, for any interval and length") {
  for (double const interval : {0.3, 1.0, 1.5, 2.0, 2.4, 2.5, 7.0, 10.0, 33.0})
    for (std::int64_t total = 1; total <= 40; ++total) {
      CAPTURE(interval);
      CAPTURE(total);
      mpt::training_clock const clock{
          .samples_per_batch = 10,
          .max_duration = {static_cast<double>(total), mpt::time_unit::batch}};
      mpt::time_value const time{std::round(10 * interval), mpt::time_unit::sample};
      std::int64_t found = 0;
      for (std::int64_t batch = 1; batch <= total; ++batch)
        found += mpt::is_due(time, batch, clock);
      CHECK(mpt::times_due(interval, total) == found);
    }
}

TEST_CASE("run duration: steps, evaluations, saves and the start, without failures") {
  auto const run = mpt::duration_of(config(), plan(false), work, machines()).value();
  CHECK(run.batches == 1000);
  CHECK(run.training == 2000);
  CHECK(run.start == 60 + 12.0 / 6);  // at the rate of the shared disk
  CHECK(run.evaluations == 10);
  CHECK(run.evaluation_seconds == 7 * 0.5);
  CHECK(run.evaluation == 35);
  CHECK(run.saves == 4);                // after batches 300, 600, 900 and 1000
  CHECK(run.checkpoint_seconds == 10);  // 8 nodes of 1 GB/s share 4 GB/s
  CHECK(run.saving == 40);
  CHECK(run.failures == 0);
  CHECK(run.goodput() == doctest::Approx(2000.0 / (62 + 2000 + 35 + 40)));
  CHECK(run.notes.empty());
}

TEST_CASE(
    "run duration: saves in the background stop training for a copy, and for the last write") {
  auto const cluster = machines();
  double const copy = 5e9 / cluster.device.host_rate;
  auto const run = mpt::duration_of(config(), plan(true), work, cluster).value();
  CHECK(run.saving == doctest::Approx(4 * copy + 10));
  auto slow = cluster;
  slow.disks.shared.save = 40e9 / 1000.0;  // longer than the 508.75 s between two saves
  auto const late = mpt::duration_of(config(), plan(true), work, slow).value();
  CHECK(late.saving == doctest::Approx(4 * copy + 3 * (1000 - 2035.0 / 4) + 1000));
}

TEST_CASE("run duration: a rare failure costs half an interval of saves, and a restart") {
  auto cluster = machines();
  cluster.interruptions = {.node_days = 1000, .start = 60, .restart = 300};
  auto const run = mpt::duration_of(config(), plan(false), work, cluster).value();
  double const rate = 8 / (1000 * 86400.0), seconds = 2000 + 35 + 40;
  double const restart = 300 + 60 + 40.0 / 6;
  CHECK(run.failures == doctest::Approx(rate * seconds * (seconds / 8 + restart)).epsilon(1e-3));
  CHECK(run.expected_failures() == doctest::Approx(rate * run.total()));
}

TEST_CASE("run duration: an interval of saves that loses much more than the best is named") {
  auto cluster = machines();
  cluster.interruptions.node_days = 0.2;  // 36 minutes between failures of eight nodes
  auto const run = mpt::duration_of(config(), plan(false), work, cluster).value();
  REQUIRE(run.better_save_interval.has_value());
  auto better = config();
  better.checkpoint.save_interval = {static_cast<double>(*run.better_save_interval),
                                     mpt::time_unit::batch};
  auto const other = mpt::duration_of(better, plan(false), work, cluster).value();
  CHECK(other.goodput() == doctest::Approx(run.better_goodput));
  CHECK(other.goodput() > run.goodput());
  CHECK_FALSE(other.better_save_interval.has_value());
}

TEST_CASE("run duration: failures that leave no progress are one error") {
  auto cluster = machines();
  cluster.interruptions.node_days = 0.01;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(mpt::duration_of(config(), plan(false), work, cluster)),
      doctest::Contains("plan: one of 8 nodes fails every 1:48, but the run saves every 8:39 and "
                        "needs 6:07 to go on after a failure: it would not end; try "
                        "save_interval="),
      parallel::error);
}

TEST_CASE("run duration: what needs the data is a note, and epochs are no duration") {
  auto c = config();
  c.evaluation.eval_subset_num_batches = -1;
  c.checkpoint.save_interval = {1, mpt::time_unit::epoch};
  auto const run = mpt::duration_of(c, plan(false), work, machines()).value();
  REQUIRE(run.notes.size() == 2);
  CHECK(run.notes[0].find("eval_subset_num_batches=N says its batches") != std::string::npos);
  CHECK(run.notes[1].find("save_interval=1ep is not counted") != std::string::npos);
  CHECK(run.evaluation == 0);
  CHECK(run.saves == 0);
  c.data.train_loader.finetuning.emplace();
  CHECK(mpt::duration_of(c, plan(false), work, machines())->notes[0] ==
        "examples count as max_seq_len, 2048 tokens; shorter ones take less time");
  c.run.max_duration = {1, mpt::time_unit::epoch};
  CHECK_FALSE(mpt::duration_of(c, plan(false), work, machines()).has_value());
}

}  // namespace
}  // namespace run_duration_test
