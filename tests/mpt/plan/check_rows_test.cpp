#include <doctest/doctest.h>

#include <mpt/plan/check_rows.hpp>

namespace check_rows_test {
namespace {

TEST_CASE("Kendall's tau: the share of pairs in the same order, corrected for ties") {
  CHECK(mpt::kendall_tau({1, 2, 3}, {10, 20, 30}) == 1);
  CHECK(mpt::kendall_tau({1, 2, 3}, {3, 2, 1}) == -1);
  CHECK(mpt::kendall_tau({1, 2, 3, 4}, {1, 2, 4, 3}) == doctest::Approx(4.0 / 6));
  // scipy.stats.kendalltau([1, 2, 2, 3], [1, 2, 3, 3]) of scipy 1.14
  CHECK(mpt::kendall_tau({1, 2, 2, 3}, {1, 2, 3, 3}) == doctest::Approx(0.8));
  CHECK(mpt::kendall_tau({1}, {2}) == 1);
}

TEST_CASE("checked rows: a factor is fitted on at most five rows, and errors are of the others") {
  std::vector<mpt::checked_row> rows;
  for (int i = 1; i <= 20; ++i)
    rows.push_back({.source = "owner/program",
                    .gpu = "H100",
                    .location = "table.csv:" + std::to_string(i),
                    .measured = 2.0 * i,
                    .predicted = 1.0 * i,
                    .checksum = static_cast<std::uint64_t>(i)});
  auto const exact = mpt::check_rows(rows);
  REQUIRE(exact.size() == 1);
  CHECK(exact[0].rows == 20);
  CHECK(exact[0].fitted == 5);
  CHECK(exact[0].held_out == 10);
  CHECK(exact[0].factor == doctest::Approx(2));
  CHECK(exact[0].mean_error == doctest::Approx(0));
  CHECK(exact[0].tau == 1);
  rows.push_back({.source = "owner/other",
                  .gpu = "H100",
                  .location = "table.csv:30",
                  .measured = 3,
                  .predicted = 1,
                  .checksum = 7});
  auto const sources = mpt::check_rows(rows);
  REQUIRE(sources.size() == 2);
  CHECK(sources[1].fitted == 0);
  CHECK(sources[1].factor == 1);
  CHECK(sources[1].mean_error == doctest::Approx(2.0 / 3));
}

TEST_CASE(
    "checked rows: costs of a program take the place of a factor, and a GPU without rows to fit "
    "has its program's") {
  auto const row = [](std::string gpu, double measured, std::uint64_t checksum, bool has_costs) {
    return mpt::checked_row{.source = "owner/program",
                            .gpu = std::move(gpu),
                            .location = "table.csv:2",
                            .measured = measured,
                            .predicted = 1,
                            .has_costs = has_costs,
                            .checksum = checksum};
  };
  auto const results =
      mpt::check_rows({row("A", 2, 2, false), row("B", 8, 4, false), row("C", 4, 3, false),
                       row("D", 5, 2, true), row("D", 1, 3, true)});
  REQUIRE(results.size() == 4);
  CHECK(results[0].gpu == "D");
  CHECK(results[0].fitted == 0);
  CHECK(results[0].factor == 1);
  CHECK(results[0].mean_error == 0);
  CHECK(results[3].gpu == "C");
  CHECK(results[3].factor == doctest::Approx(4));  // the geometric mean of 2 and 8
  CHECK(results[3].mean_error == doctest::Approx(0));
}

TEST_CASE("source of a row: the program without version and file") {
  CHECK(mpt::program_of("owner/name@c0ffee:docs/page.md") == "owner/name");
  CHECK(mpt::program_of("arXiv 2205.05198 Table 5, as in x") == "arXiv 2205.05198 Table 5");
}

}  // namespace
}  // namespace check_rows_test
