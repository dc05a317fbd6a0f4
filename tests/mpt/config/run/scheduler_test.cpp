// Tests of the learning rate against numbers made by Composer's own schedulers (0.33.0.dev0).
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/run/scheduler.hpp>
#include <mpt/yaml/document.hpp>
#include <nlohmann/json.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden.hpp>

#include "mpt/config/refused_settings.hpp"

namespace scheduler_test {

inline mpt::scheduler_config read(std::string const& text) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  mpt::config_report report;
  return mpt::read_scheduler({root, "scheduler", report});
}

inline std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(read(text)); });
}

TEST_CASE("learning rate: multipliers equal Composer's to the last bit") {
  struct row {
    std::string scheduler, duration;
    std::int64_t batches_per_epoch;
    std::vector<std::pair<std::int64_t, double>> points;
  };
  std::vector<row> const rows{
      {"{name: cosine_with_warmup, t_warmup: 100ba, alpha_f: 0.1}",
       "4800ba",
       1000,
       {{0, 0.0},
        {1, 0.01},
        {99, 0.99},
        {100, 1.0},
        {101, 0.9999998994721183},
        {1000, 0.9209987021537921},
        {2450, 0.55},
        {4799, 0.10000010052788172},
        {4800, 0.1}}},
      {"{name: cosine_with_warmup, t_warmup: 0.02dur}",
       "2e9tok",
       1000,
       {{0, 0.0},
        {10, 0.131072},
        {76, 0.9961472},
        {77, 0.9999999119875491},
        {1000, 0.8567754850639699},
        {3814, 8.583490768154789e-08},
        {3815, 0.0}}},
      {"{name: linear_decay_with_warmup, t_warmup: 20ba, alpha_i: 0.8, alpha_f: 0.2}",
       "2ep",
       50,
       {{0, 0.0}, {10, 0.4}, {20, 0.8}, {30, 0.7250000000000001}, {100, 0.19999999999999996}}},
      {"{name: linear_decay_with_warmup, t_warmup: 0.1dur, alpha_i: 0.8, alpha_f: 0.2}",
       "2ep",
       55,
       {{0, 0.0},
        {10, 0.7272727272727273},
        {11, 0.8},
        {30, 0.6848484848484849},
        {109, 0.20606060606060594},
        {110, 0.19999999999999996}}},
      {"{name: constant_with_warmup, t_warmup: 5120sp, alpha: 0.5, t_max: 3000000sp}",
       "2560000sp",
       1000,
       {{0, 0.0}, {10, 0.25}, {19, 0.475}, {20, 0.5}, {100, 0.5}}}};
  for (auto const& [text, duration, batches_per_epoch, points] : rows) {
    mpt::training_clock const clock{.samples_per_batch = 256,
                                    .tokens_per_batch = 256 * 2048,
                                    .batches_per_epoch = batches_per_epoch,
                                    .max_duration = mpt::parse_time(duration)};
    auto const schedule = read(text);
    mpt::check_schedule(schedule, clock);
    for (auto const& point : points) {
      auto const& [batch, expected] = point;
      CAPTURE(point.first);
      CHECK(mpt::learning_rate_multiplier(schedule, batch, clock) == expected);
    }
  }
}

nlohmann::json golden() {
  return nlohmann::json::parse(mpt::read_small_file(test::golden_folder() / "schedules.json"));
}

mpt::training_clock clock_of(nlohmann::json const& row) {
  auto const number = [&](char const* key) {
    return row.contains(key) && row[key].is_number() ? row[key].get<std::int64_t>() : 0;
  };
  return {.samples_per_batch = number("samples_per_batch"),
          .tokens_per_batch = number("samples_per_batch") * number("tokens_per_sample"),
          .batches_per_epoch = number("batches_per_epoch"),
          .max_duration = mpt::parse_time(row["max_duration"].get<std::string>())};
}

TEST_CASE(
    "learning rate: linear, constant and inverse root schedules equal the references at every "
    "batch") {
  std::size_t points = 0;
  auto const reference = golden();
  for (auto const& row : reference["accepted"]) {
    CAPTURE(row["scheduler"].dump());
    auto const clock = clock_of(row);
    auto const schedule = read(row["scheduler"].dump());
    mpt::check_schedule(schedule, clock);
    auto const& expected = row["multipliers"];
    for (std::size_t batch = 0; batch < expected.size(); ++batch, ++points) {
      CAPTURE(batch);
      CHECK(mpt::learning_rate_multiplier(schedule, static_cast<std::int64_t>(batch), clock) ==
            expected[batch].get<double>());
    }
  }
  CHECK(points == 591);
}

TEST_CASE(
    "learning rate: an inverse root schedule that LLM Foundry refuses is refused with the reason") {
  std::vector<std::string> const messages{
      "f.yaml:1:79: scheduler.t_warmup: cannot be a fraction of max_duration, since this schedule "
      "is for training that goes on; use the unit of max_duration",
      "scheduler.t_scale 10tok must be in the unit of max_duration 40ba, as that of "
      "inv_sqrt_with_warmup",
      "f.yaml:1:41: scheduler.alpha_f_decay: must be at least alpha_f_cooldown, 0.2, found 0.1"};
  auto const refused = golden()["refused"];
  REQUIRE(refused.size() == messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::string message;
    try {
      mpt::check_schedule(read(refused[i]["scheduler"].dump()), clock_of(refused[i]));
    } catch (parallel::error const& error) {
      message = error.what();
    }
    CHECK(message == messages[i]);
  }
}

TEST_CASE("learning rate: times of different units give one schedule") {
  mpt::training_clock clock{.samples_per_batch = 4,
                            .tokens_per_batch = 400,
                            .batches_per_epoch = 0,
                            .max_duration = mpt::parse_time("40000tok")};
  auto const mixed = read("{name: cosine_with_warmup, t_warmup: 10ba}");
  auto const same_unit = read("{name: cosine_with_warmup, t_warmup: 4000tok}");
  for (std::int64_t batch = 0; batch <= 100; ++batch)
    CHECK(mpt::learning_rate_multiplier(mixed, batch, clock) ==
          doctest::Approx(mpt::learning_rate_multiplier(same_unit, batch, clock)).epsilon(1e-14));
}

TEST_CASE("learning rate: a full-length or zero warm-up does not divide by zero") {
  mpt::training_clock const clock{.samples_per_batch = 1,
                                  .tokens_per_batch = 1,
                                  .batches_per_epoch = 0,
                                  .max_duration = mpt::parse_time("10ba")};
  CHECK(mpt::learning_rate_multiplier(read("{name: cosine_with_warmup, t_warmup: 10ba}"), 10,
                                      clock) == 1);
  CHECK(mpt::learning_rate_multiplier(read("{name: cosine_with_warmup, t_warmup: 0ba}"), 0,
                                      clock) == 1);
}

TEST_CASE("learning rate: a warm-up or decay that outlasts training is noted in any unit") {
  mpt::training_clock const clock{.samples_per_batch = 4,
                                  .tokens_per_batch = 400,
                                  .batches_per_epoch = 0,
                                  .max_duration = mpt::parse_time("10ba")};
  auto const first_note = [&](std::string const& times,
                              std::string const& name = "cosine_with_warmup") {
    auto const notes = mpt::unfinished_parts(read("{name: " + name + ", " + times + "}"), clock);
    return notes.empty() ? std::string() : notes.front();
  };
  std::string const rate = "the learning rate does not come ";
  CHECK(first_note("t_warmup: 5ba").empty());
  CHECK(first_note("t_warmup: 3600tok, t_max: 4000tok").empty());
  CHECK(first_note("t_warmup: 0ba, t_max: 40sp").empty());
  CHECK(first_note("t_warmup: 0ba, t_max: 3999tok").empty());  // its last batch is the training's
  CHECK(first_note("t_warmup: 10ba") ==
        "scheduler.t_warmup 10ba is not shorter than max_duration 10ba: " + rate + "to its value");
  CHECK(first_note("t_warmup: 1e6tok") ==
        "scheduler.t_warmup 1000000tok (2500 batches) is not shorter than max_duration 10ba: " +
            rate + "to its value");
  CHECK(first_note("t_warmup: 0ba, t_max: 1e6tok") ==
        "scheduler.t_max 1000000tok (2500 batches) is longer than max_duration 10ba: " + rate +
            "down to alpha_f");
  CHECK(first_note("t_warmup: 0ba, t_max: 44sp", "linear_decay_with_warmup") ==
        "scheduler.t_max 44sp (11 batches) is longer than max_duration 10ba: " + rate +
            "down to alpha_f");
  CHECK(first_note("t_warmup: 0ba, t_max: 44sp", "constant_with_warmup").empty());
  CHECK(first_note("t_warmup: 0ba, t_scale: 1ba, t_cooldown: 2ba, t_max: 20ba",
                   "inv_sqrt_with_warmup") ==
        "scheduler.t_max 20ba is longer than max_duration 10ba: " + rate +
            "down to alpha_f_cooldown");
  CHECK(mpt::unfinished_parts_in_epochs(read("{name: cosine_with_warmup, t_warmup: 20ba}"), clock)
            .empty());
  mpt::training_clock const epoch{.samples_per_batch = 4,
                                  .tokens_per_batch = 400,
                                  .batches_per_epoch = 10,
                                  .max_duration = mpt::parse_time("1ep")};
  CHECK(mpt::unfinished_parts_in_epochs(read("{name: cosine_with_warmup, t_warmup: 20ba}"), epoch)
            .size() == 1);
  CHECK(mpt::unfinished_parts_in_epochs(read("{name: cosine_with_warmup, t_warmup: 2ba}"), epoch)
            .empty());
}

TEST_CASE("learning rate: a schedule that ends before training is an error") {
  auto const schedule = read("{name: cosine_with_warmup, t_warmup: 1ba, t_max: 50ba}");
  mpt::training_clock const clock{.samples_per_batch = 1,
                                  .tokens_per_batch = 1,
                                  .batches_per_epoch = 60,
                                  .max_duration = mpt::parse_time("1ep")};
  CHECK_THROWS_WITH_AS(mpt::check_schedule(schedule, clock),
                       "scheduler.t_max 50ba (50 batches) is shorter than max_duration 1ep (60 "
                       "batches); make it at least as long",
                       parallel::error);
}

TEST_CASE("scheduler: each invalid setting gives one message") {
  for (auto const& [text, message] : test::refused_settings("scheduler"))
    CHECK(problem(text) == message);
}

}  // namespace scheduler_test
