// Tests of time strings against Composer's: their number of batches, and when an interval is due.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/yaml/time.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace time_test {

inline std::string problem(std::string_view text) {
  return test::message_of([&] { static_cast<void>(mpt::parse_time(text)); });
}

TEST_CASE("time: a string is read and written back") {
  using mpt::time_unit;
  CHECK(mpt::parse_time("100ba") == mpt::time_value{100, time_unit::batch});
  CHECK(mpt::parse_time("1ep") == mpt::time_value{1, time_unit::epoch});
  CHECK(mpt::parse_time("2e9tok") == mpt::time_value{2e9, time_unit::token});
  CHECK(mpt::parse_time("30sp") == mpt::time_value{30, time_unit::sample});
  CHECK(mpt::parse_time("0.02dur") == mpt::time_value{0.02, time_unit::duration});
  CHECK(mpt::parse_time("3") == mpt::time_value{3, time_unit::epoch});
  CHECK(mpt::parse_time("030ba") == mpt::time_value{30, time_unit::batch});  // as Composer's
  CHECK(mpt::parse_time("3_0 ba") == mpt::time_value{30, time_unit::batch});
  CHECK(mpt::parse_time(" 1e1\tba") == mpt::time_value{10, time_unit::batch});
  CHECK(mpt::parse_time("030") == mpt::time_value{24, time_unit::epoch});  // an integer of YAML
  for (std::string const text : {"100ba", "1ep", "2000000000tok", "30sp", "0.02dur"})
    CHECK(mpt::to_string(mpt::parse_time(text)) == text);
}

TEST_CASE("time: each invalid string gives one message") {
  for (auto const& [text, message] : test::text_cases("mpt/yaml/texts.txt", "invalid times"))
    CHECK(problem(text) == message);
  CHECK(problem("") == "'' is not a time: expected a number and one of ep, ba, sp, tok, dur");
}

TEST_CASE("time: in batches it is fractional and is reached at the end of its batch") {
  mpt::training_clock clock{.samples_per_batch = 4,
                            .tokens_per_batch = 4096,
                            .batches_per_epoch = 10,
                            .max_duration = mpt::parse_time("3ep")};
  CHECK(mpt::in_batches(mpt::parse_time("1e6tok"), clock) == 244.140625);
  CHECK(mpt::batches_to_reach(mpt::parse_time("1e6tok"), clock) == 245);
  CHECK(mpt::batches_to_reach(mpt::parse_time("9sp"), clock) == 3);
  CHECK(mpt::batches_to_reach(mpt::parse_time("2ep"), clock) == 20);
  CHECK(mpt::batches_to_reach(mpt::parse_time("0.5dur"), clock) == 15);
  CHECK(mpt::total_batches(clock) == 30);
  clock.batches_per_epoch = 0;
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::total_batches(clock)),
                       "the time 3ep needs the number of batches of an epoch, which is not known",
                       parallel::error);
}

// The expected values were computed in Python by Composer's expressions: int(fraction * batches of
// an epoch * epochs), and the batches that math.ceil(epochs * fraction * batches of an epoch)
// divides.
TEST_CASE("time: fractions of epochs are multiplied in Composer's order") {
  auto const clock = [](char const* duration, std::int64_t batches) {
    return mpt::training_clock{.batches_per_epoch = batches,
                               .max_duration = mpt::parse_time(duration)};
  };
  CHECK(mpt::in_batches(mpt::parse_time("0.03dur"), clock("10ep", 90)) == 26);
  CHECK(mpt::in_batches(mpt::parse_time("0.06dur"), clock("10ep", 45)) == 26);
  CHECK(mpt::in_batches(mpt::parse_time("0.09dur"), clock("10ep", 30)) == 26);
  CHECK(mpt::is_due(mpt::parse_time("0.05dur"), 4, clock("6ep", 10)));
  CHECK_FALSE(mpt::is_due(mpt::parse_time("0.05dur"), 3, clock("6ep", 10)));
}

// The lists were made by Composer's create_interval_scheduler (0.33.0.dev0), 10 batches an epoch,
// 4 samples and 100 tokens a batch.
TEST_CASE("time: intervals are due at the same batches as under Composer") {
  struct row {
    std::string interval, duration;
    std::vector<std::int64_t> due;
  };
  std::vector<row> const rows{{"7ba", "30ba", {7, 14, 21, 28, 30}},
                              {"1ep", "25ba", {10, 20, 25}},
                              {"2ep", "5ep", {20, 40, 50}},
                              {"250tok", "12ba", {3, 5, 8, 10, 12}},
                              {"9sp", "30sp", {3, 5, 7, 8}},
                              {"0.25dur", "30ba", {8, 16, 24, 30}},
                              {"0.3dur", "2ep", {6, 12, 18, 20}},
                              {"0.4dur", "1050tok", {5, 9, 11}},
                              {"0ba", "9ba", {}}};
  for (auto const& example : rows) {
    mpt::training_clock const clock{.samples_per_batch = 4,
                                    .tokens_per_batch = 100,
                                    .batches_per_epoch = 10,
                                    .max_duration = mpt::parse_time(example.duration)};
    std::vector<std::int64_t> found;
    for (std::int64_t batch = 0; batch <= mpt::total_batches(clock); ++batch)
      if (mpt::is_due(mpt::parse_time(example.interval), batch, clock)) found.push_back(batch);
    CHECK_MESSAGE(found == example.due, example.interval, " of ", example.duration);
  }
}

}  // namespace time_test
