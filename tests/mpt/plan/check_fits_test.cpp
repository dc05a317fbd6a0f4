#include <doctest/doctest.h>

#include <mpt/plan/check_fits.hpp>

namespace check_fits_test {
namespace {

TEST_CASE("checked layouts: the table of four counts the rows that are held out") {
  auto const row = [](bool fits, double share, std::uint64_t checksum) {
    return mpt::tried_layout{.source = "owner/program",
                             .gpu = "A100",
                             .location = "t:1",
                             .fits = fits,
                             .predicted_share = share,
                             .checksum = checksum};
  };
  auto const counts = mpt::check_fits({row(true, 0.5, 1), row(true, 1.5, 3), row(false, 0.9, 5),
                                       row(false, 2, 7), row(false, 3, 9), row(true, 9, 2)});
  REQUIRE(counts.size() == 1);
  CHECK(counts[0].rows == 6);
  CHECK(counts[0].held_out() == 5);
  CHECK(counts[0].fits_as_predicted == 1);
  CHECK(counts[0].fits_unforeseen == 1);
  CHECK(counts[0].fails_unforeseen == 1);
  CHECK(counts[0].fails_as_predicted == 2);
  CHECK(counts[0].right() == doctest::Approx(0.6));
}

}  // namespace
}  // namespace check_fits_test
