// Tests of a run's speed and the parts of its time, with given times.
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <mpt/train/report/run_pace.hpp>

namespace run_pace_test {

using namespace std::chrono_literals;
using mpt::run_pace;

/// Fake data: batches of 10 tokens in rows of 12 positions.
class batches final : public mpt::run_batches {
 public:
  [[nodiscard]] parallel::index batches_per_epoch() const override { return 4; }
  [[nodiscard]] mpt::trained_set const& set() const override { return set_; }
  [[nodiscard]] parallel::data::share share() const override { return {0, 1}; }
  [[nodiscard]] mpt::sequences at(parallel::index) override { throw parallel::error("unused"); }
  [[nodiscard]] bool is_in_memory() const override { return true; }
  [[nodiscard]] std::int64_t tokens() const override { return 10; }
  [[nodiscard]] std::int64_t padded_tokens() const override { return 12; }
  [[nodiscard]] double waited_seconds() const override { return 0; }

 private:
  mpt::trained_set set_;
};

mpt::training_clock const clock{.tokens_per_batch = 10, .batches_per_epoch = 4};

/// The pace after `count` batches: one batch per second, except the first, which takes three
/// seconds.
run_pace pace_after(int count, std::int64_t skipped) {
  mpt::callbacks_config config;
  config.remaining_skip_batches = skipped;
  run_pace out(config);
  out.begin(batches(), 0, false, clock);
  auto const begin = run_pace::clock::now();
  for (int i = 1; i <= count; ++i)
    out.mark({.time = begin + std::chrono::seconds(i + 2), .tokens = 10 * i, .batches = i});
  return out;
}

TEST_CASE("run pace: the estimate omits the first batches, and there is none before they end") {
  CHECK(!pace_after(1, 1).remaining_seconds(10));
  CHECK(pace_after(5, 1).remaining_seconds(10).value() == doctest::Approx(10).epsilon(0.01));
  CHECK(!pace_after(2, 2).remaining_seconds(10));
  // with the first: 7 s for 5 batches
  CHECK(pace_after(5, 0).remaining_seconds(10).value() == doctest::Approx(14).epsilon(0.01));
}

TEST_CASE("run pace: the estimate includes the evaluations and saves that are to come") {
  auto pace = pace_after(4, 1);
  double const plain = pace.remaining_seconds(8).value();
  pace.evaluate([] { std::this_thread::sleep_for(100ms); });
  pace.skip_since(run_pace::clock::now() - 100ms);
  double const evaluation = pace.evaluation_seconds();
  CHECK(evaluation >= 0.1);
  // one evaluation in four batches: two in eight
  CHECK(pace.remaining_seconds(8).value() - plain == doctest::Approx(2 * evaluation).epsilon(0.2));
  pace.skip_since(run_pace::clock::now() - 1s);  // a save in four batches
  CHECK(pace.remaining_seconds(8).value() - plain ==
        doctest::Approx(2 * evaluation + 2).epsilon(0.2));
}

TEST_CASE("run pace: evaluations do not count as training, also before the first batch") {
  run_pace pace{mpt::callbacks_config()};
  pace.evaluate([] { std::this_thread::sleep_for(20ms); });
  pace.begin(batches(), 0, false, clock);
  CHECK(pace.evaluation_seconds() >= 0.02);
  CHECK(pace.seconds_without_evaluation() < 0.02);
  CHECK(!pace.remaining_seconds(3));
  auto const begin = run_pace::clock::now();
  pace.evaluate([] { std::this_thread::sleep_for(50ms); });
  pace.skip_since(begin);
  pace.end();
  CHECK(pace.evaluation_seconds() >= 0.07);
  CHECK(pace.training_seconds() < 0.05);
}

TEST_CASE("run pace: tokens of an epoch are counted where a resumed run can know them") {
  batches const data;
  run_pace texts{mpt::callbacks_config()};
  texts.resume_at(60);
  texts.begin(data, 6, false, clock);  // two batches into the second epoch
  CHECK(texts.tokens_of_run() == 60);
  CHECK(texts.tokens_of_epoch() == 20);
  texts.record_batch(data, 7, false);
  CHECK(texts.tokens_of_epoch() == 30);
  CHECK(texts.tokens_of_run() == 70);
  CHECK(texts.batches() == 1);
  CHECK(texts.tokens() == 10);
  CHECK(texts.padded_tokens() == 12);
  run_pace examples{mpt::callbacks_config()};
  examples.resume_at(60);
  examples.begin(data, 6, true, clock);
  examples.record_batch(data, 7, false);
  CHECK(examples.tokens_of_epoch() < 0);
  examples.record_batch(data, 7, true);
  CHECK(examples.tokens_of_epoch() == 10);
}

TEST_CASE("run pace: the summary's speeds count only this program's batches") {
  batches const data;
  run_pace pace{mpt::callbacks_config()};
  pace.resume_at(1000);
  pace.begin(data, 100, false, clock);
  pace.record_batch(data, 7, true);
  std::this_thread::sleep_for(10ms);
  pace.record_batch(data, 7, false);
  pace.end();
  mpt::run_summary summary;
  mpt::watched_peak const peak(1e6, std::string(mpt::watched_peak::configured));
  pace.summarize(summary, {.flops_per_token = 100, .causal_flops_per_token = 80}, peak, 6);
  double const seconds = summary.seconds;
  CHECK(seconds >= 0.01);
  CHECK(summary.batches_here == 2);
  CHECK(summary.tokens == 1020);
  CHECK(summary.trained_tokens == 14);
  CHECK(summary.tokens_per_second == doctest::Approx(20 / seconds));
  CHECK(summary.samples_per_second == doctest::Approx(12 / seconds));
  CHECK(summary.mfu == doctest::Approx(24 * 100 / seconds / 1e6));
  CHECK(summary.peak_flops == 1e6);
  CHECK(summary.peak_source == "gpu_flops_available");
}

}  // namespace run_pace_test
