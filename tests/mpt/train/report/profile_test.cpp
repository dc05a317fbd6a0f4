// Tests of the profile's table and trace, with tasks of given times.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/report/profile.hpp>
#include <parallel/core/clock.hpp>

namespace profile_test {

std::vector<mpt::stream_profile> example() {
  auto const time_at = [](int microseconds) {
    return parallel::steady_time(std::chrono::microseconds(1'000'000 + microseconds));
  };
  return {{"compute",
           {{{"matmul"}, time_at(0), time_at(3000)},
            {{"gelu"}, time_at(3000), time_at(4000)},
            {{"matmul"}, time_at(4000), time_at(8000)}}},
          {"exchanges", {{{"all_reduce", 2'000'000}, time_at(5000), time_at(7000)}}}};
}

TEST_CASE("profile: a task named by a function template omits the template's arguments") {
  CHECK(mpt::detail::task_name("submit<float>") == "submit");
  CHECK(mpt::detail::task_name("all_reduce") == "all_reduce");
}

TEST_CASE(
    "profile: operations are summed by stream and name, the longest first, with their rates") {
  std::string const expected =
      "stream    operation                         calls   ms a step   share  rate\n"
      "compute   matmul                                1       3.500   87.5%  2.00 GF/s\n"
      "compute   gelu                                0.5       0.500   12.5%  \n"
      "exchanges all_reduce                          0.5       1.000  100.0%  1.00 GB/s\n";
  CHECK(mpt::profile_table(example(), 2, {{"matmul", 14'000'000}}) == expected);
}

TEST_CASE("profile: the trace has a named thread per stream, and times since the first task") {
  auto const trace = mpt::chrome_trace(example());
  auto const& events = trace["traceEvents"];
  REQUIRE(events.size() == 6);
  CHECK(events[0]["args"]["name"] == "compute");
  CHECK(events[1]["name"] == "matmul");
  CHECK(events[1]["ts"] == 0.0);
  CHECK(events[3]["ts"] == 4000.0);
  CHECK(events[3]["dur"] == 4000.0);
  CHECK(events[4]["args"]["name"] == "exchanges");
  CHECK(events[5]["name"] == "all_reduce");
  CHECK(events[5]["tid"] == 1);
  CHECK(events[5]["args"]["bytes"] == 2'000'000);
}

}  // namespace profile_test
