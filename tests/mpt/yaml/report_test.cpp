// Tests of the one line that lists what was accepted and has no effect.
#include <doctest/doctest.h>

#include <mpt/yaml/report.hpp>

namespace report_test {

TEST_CASE("config_report: ignored keys are listed once, grouped by reason") {
  mpt::config_report report;
  CHECK(mpt::describe_ignored(report).empty());
  report.ignored = {{"a", "no workers"}, {"b", "always on"}, {"c", "no workers"}};
  CHECK(mpt::describe_ignored(report) ==
        "accepted and without effect here: a, c (no workers); b (always on)");
}

}  // namespace report_test
