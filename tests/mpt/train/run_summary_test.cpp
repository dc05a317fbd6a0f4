// What a step's sums mean: means over its loss tokens, and its place in the epoch.
#include <doctest/doctest.h>

#include <mpt/train/run_summary.hpp>

namespace run_summary_test {

mpt::train::step_result<double> step(double loss, std::int64_t tokens, std::int64_t correct) {
  mpt::train::step_result<double> out;
  out.sums = {.loss = loss, .tokens = tokens, .correct = correct};
  out.gradient_norm = 3;
  out.gradient_scale = 0.125;
  return out;
}

TEST_CASE("loss and accuracy are means over the loss tokens") {
  mpt::training_clock const clock{.batches_per_epoch = 4};
  auto const of = step(30, 12, 9);
  auto const result = mpt::result_of(of, 7, clock);
  CHECK(result.batch == 7);
  CHECK(result.loss == 2.5);
  CHECK(result.accuracy == 0.75);
  CHECK(result.gradient_norm == 3);
  CHECK(result.gradient_scale == 0.125);
  CHECK(result.tensors == &of.tensors);
  auto const report = mpt::report_of(of.sums, "held out", 7, clock);
  CHECK(report.label == "held out");
  CHECK(report.batch == 7);
  CHECK(report.loss == 2.5);
  CHECK(report.accuracy == 0.75);
}

TEST_CASE("batches that are no whole epoch do not end one") {
  mpt::training_clock const clock{.batches_per_epoch = 4};
  auto const of = step(1, 1, 1);
  for (std::int64_t batch = 1; batch <= 9; ++batch) {
    CAPTURE(batch);
    auto const result = mpt::result_of(of, batch, clock);
    CHECK(result.epoch == (batch < 4 ? 0 : batch < 8 ? 1 : 2));
    CHECK(result.ends_epoch == (batch == 4 || batch == 8));
    CHECK(mpt::report_of(of.sums, "", batch, clock).epoch == result.epoch);
  }
}

TEST_CASE("without loss tokens the means are sums, not infinities") {
  mpt::training_clock const clock{.batches_per_epoch = 1};
  CHECK(mpt::result_of(step(0, 0, 0), 1, clock).loss == 0);
  CHECK(mpt::report_of({}, "", 1, clock).accuracy == 0);
}

TEST_CASE("speed is what was trained a second, utilisation that of all places") {
  mpt::run_summary summary;
  summary.trained_tokens = 60;
  mpt::set_speed(summary, {.peak_flops = 1000, .flops_per_token = 20, .causal_flops_per_token = 10},
                 {.training = 4, .waiting_for_data = 1}, 100, 120);
  CHECK(summary.seconds == 4);
  CHECK(summary.tokens_per_second == 25);
  CHECK(summary.trained_tokens_per_second == 15);
  CHECK(summary.mfu == 0.6);
  CHECK(summary.mfu_causal == 0.3);
  CHECK(summary.data_wait_share == 0.25);
}

TEST_CASE("that saves hold up training is said, with the memory that is missing") {
  CHECK(mpt::note_on_saves(true, 3000).empty());
  CHECK(
      mpt::note_on_saves(false, 3000) ==
      "note: training stops while a checkpoint is written: there is no memory for a copy of it, " +
          mpt::console::bytes(3000) + " per rank");
}

TEST_CASE("what is said of saves: what they took, and when to save by it") {
  mpt::run_summary of;
  CHECK(mpt::text_of_saves(of, 8).empty());
  CHECK(mpt::proposed_save_interval(of.saves, 8) == 0);
  of.saves = {.saves = 4, .held_up_seconds = 2, .seconds = 40};
  CHECK(mpt::text_of_saves(of, 1024) ==
        "saves: 4, each there after 10.00 s, for 0.50 s of which training stood; with a failure "
        "every 2d 01h (1024 devices that fail as Llama 3's did) a save every 7:02 loses the least");
  // what a save takes is the least
  of.saves = {.saves = 1, .held_up_seconds = 0.001, .seconds = 500};
  CHECK(mpt::proposed_save_interval(of.saves, 100000) == 500);
}

}  // namespace run_summary_test
