// The window of speed and waiting, on given times.
#include <doctest/doctest.h>

#include <mpt/train/metrics.hpp>

namespace metrics_test {

using window = mpt::speed_window;

window::instant at(int seconds, std::int64_t tokens, double waited) {
  return {window::clock::time_point(std::chrono::seconds(seconds)), tokens, waited};
}

TEST_CASE("speed is that of the last batches, and of this program's alone when a run goes on") {
  window speed(3, at(100, 7000, 0));
  CHECK(speed.tokens_per_second() == 0);
  speed.mark(at(101, 7010, 0));
  CHECK(speed.tokens_per_second() == 10);
  for (int batch = 2; batch <= 4; ++batch) speed.mark(at(99 + 2 * batch, 7000 + 10 * batch, 0));
  CHECK(speed.tokens_per_second() == 5);  // the first batch has left
}

TEST_CASE("a stall late in a long run is the window's, and passes") {
  window speed(10, at(0, 0, 0));
  for (int batch = 1; batch <= 1000; ++batch) speed.mark(at(batch, batch, 0));
  CHECK(speed.data_wait_share() == 0);
  speed.mark(at(1010, 1001, 9));  // less than 1 % of the run
  CHECK(speed.data_wait_share() == doctest::Approx(9.0 / 19));
  CHECK(speed.tokens_per_second() == doctest::Approx(10.0 / 19));
  for (int batch = 2; batch <= 11; ++batch) speed.mark(at(1009 + batch, 1000 + batch, 9));
  CHECK(speed.data_wait_share() == 0);
  CHECK(speed.tokens_per_second() == 1);
}

TEST_CASE("time that is skipped counts for neither") {
  window speed(10, at(0, 0, 0));
  speed.mark(at(2, 10, 1));
  speed.skip(std::chrono::seconds(100));
  speed.mark(at(104, 20, 2));
  CHECK(speed.tokens_per_second() == 5);
  CHECK(speed.data_wait_share() == 0.5);
}

}  // namespace metrics_test
