// Tests of the speed window, with given times, and of the metrics file.
#include <doctest/doctest.h>

#include <mpt/train/report/metrics.hpp>
#include <parallel/support/files.hpp>

namespace metrics_test {

using window = mpt::speed_window;

window::instant instant_at(int seconds, std::int64_t tokens, double waited) {
  return {window::clock::time_point(std::chrono::seconds(seconds)), tokens, waited};
}

TEST_CASE("speed window: speed is that of this program's last batches, also in a resumed run") {
  window speed(3, instant_at(100, 7000, 0));
  CHECK(speed.tokens_per_second() == 0);
  speed.mark(instant_at(101, 7010, 0));
  CHECK(speed.tokens_per_second() == 10);
  for (int batch = 2; batch <= 4; ++batch)
    speed.mark(instant_at(99 + 2 * batch, 7000 + 10 * batch, 0));
  CHECK(speed.tokens_per_second() == 5);  // the first batch has left
}

TEST_CASE("speed window: a stall late in a long run shows in the window and then leaves it") {
  window speed(10, instant_at(0, 0, 0));
  for (int batch = 1; batch <= 1000; ++batch) speed.mark(instant_at(batch, batch, 0));
  CHECK(speed.data_wait_share() == 0);
  speed.mark(instant_at(1010, 1001, 9));  // less than 1 % of the run
  CHECK(speed.data_wait_share() == doctest::Approx(9.0 / 19));
  CHECK(speed.tokens_per_second() == doctest::Approx(10.0 / 19));
  for (int batch = 2; batch <= 11; ++batch) speed.mark(instant_at(1009 + batch, 1000 + batch, 9));
  CHECK(speed.data_wait_share() == 0);
  CHECK(speed.tokens_per_second() == 1);
}

TEST_CASE("speed window: skipped time counts neither as training nor as waiting") {
  window speed(10, instant_at(0, 0, 0));
  speed.mark(instant_at(2, 10, 1));
  speed.skip(std::chrono::seconds(100));
  speed.mark(instant_at(104, 20, 2));
  CHECK(speed.tokens_per_second() == 5);
  CHECK(speed.data_wait_share() == 0.5);
}

TEST_CASE("metrics file: metrics are appended to earlier ones, and to no other kind of file") {
  test::temporary_folder const folder;
  auto const file = folder / "new" / "metrics.jsonl";
  for (int batch = 1; batch <= 2; ++batch) {
    mpt::metrics_file metrics(file);
    metrics.write({{"time/batch", batch}});
    metrics.finish();
  }
  CHECK(test::read_all(file) == "{\"time/batch\":1}\n{\"time/batch\":2}\n");
  // a configuration, a run's own journal, rows of a training set, and a JSON document of results
  for (char const* const other : {"max_seq_len: 2\n", "{max_seq_len: 2}", "{\"event\":\"start\"}\n",
                                  "{\"prompt\":\"a\"}\n", "{\n  \"run_name\": \"a\"\n}\n", "\n"}) {
    CAPTURE(other);
    test::write_all(folder / "other", other);
    CHECK(
        test::contains(test::message_of([&] { mpt::metrics_file const metrics(folder / "other"); }),
                       "other: holds something else than metrics; choose another file"));
    CHECK(test::read_all(folder / "other") == other);
  }
  for (char const* const cut : {"", "{", "{\"time/ba"}) {  // by a kill or a full disk
    test::write_all(folder / "cut", cut);
    CHECK_NOTHROW(mpt::metrics_file(folder / "cut"));
  }
  CHECK(test::contains(test::message_of([&] { mpt::metrics_file const metrics(folder.path()); }),
                       ": cannot be written: Is a directory; choose another file"));
}

TEST_CASE("metrics file: `finish` reports lost metrics") {
  mpt::metrics_file metrics("/dev/full");
  CHECK_NOTHROW(metrics.write({{"batch", 1}}));
  CHECK_THROWS_AS(metrics.finish(), parallel::storage_error);
  CHECK(test::message_of([&] { metrics.finish(); }) ==
        "metrics_file /dev/full: 1 lines were lost: they could not be written, as on a full disk");
  mpt::metrics_file none;
  none.write({{"batch", 1}});
  CHECK_NOTHROW(none.finish());
}

}  // namespace metrics_test
