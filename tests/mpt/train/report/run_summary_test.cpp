// The summary of a step: its sums become means over its loss tokens, and the number of its batch
// becomes an epoch and a batch of that epoch.
#include <doctest/doctest.h>

#include <mpt/train/report/run_summary.hpp>

namespace run_summary_test {

mpt::train::step_result<double> step(double loss, std::int64_t tokens, std::int64_t correct) {
  mpt::train::step_result<double> out;
  out.sums = {.loss = loss, .tokens = tokens, .correct = correct};
  out.gradient_norm = 3;
  out.gradient_scale = 0.125;
  return out;
}

TEST_CASE("run summary: loss and accuracy are means over the loss tokens") {
  mpt::training_clock const clock{.batches_per_epoch = 4};
  auto const step_result = step(30, 12, 9);
  auto const result = mpt::result_of(step_result, 7, clock);
  CHECK(result.batch == 7);
  CHECK(result.loss == 2.5);
  CHECK(result.accuracy == 0.75);
  CHECK(result.gradient_norm == 3);
  CHECK(result.gradient_scale == 0.125);
  CHECK(result.tensors == &step_result.tensors);
  auto const report = mpt::report_of(step_result.sums, "held out", 7, clock);
  CHECK(report.label == "held out");
  CHECK(report.batch == 7);
  CHECK(report.loss == 2.5);
  CHECK(report.accuracy == 0.75);
}

TEST_CASE("run summary: an epoch ends at a whole number of batches_per_epoch") {
  mpt::training_clock const clock{.batches_per_epoch = 4};
  auto const step_result = step(1, 1, 1);
  for (std::int64_t batch = 1; batch <= 9; ++batch) {
    CAPTURE(batch);
    auto const result = mpt::result_of(step_result, batch, clock);
    CHECK(result.epoch == (batch < 4 ? 0 : batch < 8 ? 1 : 2));
    CHECK(result.ends_epoch == (batch == 4 || batch == 8));
    CHECK(mpt::report_of(step_result.sums, "", batch, clock).epoch == result.epoch);
  }
}

TEST_CASE("run summary: without loss tokens the means are sums, not infinities") {
  mpt::training_clock const clock{.batches_per_epoch = 1};
  CHECK(mpt::result_of(step(0, 0, 0), 1, clock).loss == 0);
  CHECK(mpt::report_of({}, "", 1, clock).accuracy == 0);
}

TEST_CASE("run summary: speed counts trained tokens, utilisation counts all positions") {
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

TEST_CASE("run summary: a note says that saves stop training, and the memory that is missing") {
  CHECK(mpt::note_on_saves(true, 3000).empty());
  CHECK(
      mpt::note_on_saves(false, 3000) ==
      "note: training stops while a checkpoint is written: there is no memory for a copy of it, " +
          mpt::console::bytes(3000) + " per rank");
}

TEST_CASE("run summary: the text of saves has their times and the interval that loses least") {
  mpt::run_summary summary;
  CHECK(mpt::text_of_saves(summary, 8).empty());
  CHECK(mpt::proposed_save_interval(summary.saves, 8) == 0);
  summary.saves = {.saves = 4, .held_up_seconds = 2, .seconds = 40};
  CHECK(
      mpt::text_of_saves(summary, 1024) ==
      "saves: 4, each complete after 10.00 s, for 0.50 s of which training stopped; with a failure "
      "every 2d 01h (1024 devices that fail as Llama 3's did) a save every 7:02 loses the least");
  // the interval is at least the time of a save
  summary.saves = {.saves = 1, .held_up_seconds = 0.001, .seconds = 500};
  CHECK(mpt::proposed_save_interval(summary.saves, 100000) == 500);
}

}  // namespace run_summary_test
