// Which rank is wrong, judged by the fingerprints that ranks state.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/train/checks/fingerprint.hpp>

namespace fingerprint_test {

using namespace parallel::train;

/// A statement about unit `unit`.
fingerprint_statement statement(int rank, std::uint64_t bits, int unit = 0) {
  return {{{.unit = unit}, bits}, rank};
}

TEST_CASE("fingerprint: ranks that agree, or state different subjects, are not wrong") {
  CHECK(judge({}).empty());
  CHECK(judge({statement(0, 5), statement(1, 6, 1), statement(2, 7, 2)}).empty());
  CHECK(judge({statement(0, 5), statement(1, 5), statement(1, 5), statement(0, 6, 1),
               statement(2, 6, 1)})
            .empty());
  fingerprint_statement other = statement(0, 9);
  for (auto const member :
       {&fingerprint_subject::unit, &fingerprint_subject::piece, &fingerprint_subject::owner,
        &fingerprint_subject::tensor, &fingerprint_subject::context}) {
    auto changed = other;
    changed.print.subject.*member = 1;
    CHECK(judge({statement(0, 5), changed}).empty());
  }
  other.print.subject.kind = fingerprint_kind::states;
  CHECK(judge({statement(0, 5), other}).empty());
}

TEST_CASE("fingerprint: the rank that differs from the majority is wrong") {
  auto const found = judge(
      {statement(0, 5), statement(7, 6), statement(2, 5), statement(1, 4, 3), statement(0, 4, 3)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{7});
  CHECK(found[0].persistent);
  CHECK(found[0].certain);
  CHECK(found[0].subject.unit == 0);
}

TEST_CASE("fingerprint: of two ranks neither is certain to be wrong, unless one corrects itself") {
  auto const two_suspects = judge({statement(4, 5), statement(1, 6)});
  REQUIRE(two_suspects.size() == 1);
  CHECK(two_suspects[0].ranks == std::vector{1, 4});
  CHECK(two_suspects[0].persistent);
  CHECK_FALSE(two_suspects[0].certain);
  auto const corrected =
      judge({statement(4, 5), statement(1, 6), statement(4, 6), statement(1, 6)});
  REQUIRE(corrected.size() == 1);
  CHECK(corrected[0].ranks == std::vector{4});
  CHECK_FALSE(corrected[0].persistent);
  CHECK(corrected[0].certain);
  auto const changing = judge({statement(4, 5), statement(1, 6), statement(4, 7), statement(1, 6)});
  REQUIRE(changing.size() == 1);  // rank 4 states another value each time
  CHECK(changing[0].ranks == std::vector{4});
  CHECK(changing[0].persistent);
  CHECK(judge({statement(4, 5), statement(1, 6), statement(4, 5), statement(1, 6)})[0].ranks ==
        std::vector{1, 4});
}

TEST_CASE("fingerprint: more ranks outweigh one that repeats itself") {
  auto const found =
      judge({statement(0, 5), statement(0, 5), statement(0, 5), statement(1, 6), statement(2, 6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{0});
}

TEST_CASE("fingerprint: a transient and a persistent error on two ranks are two faults") {
  auto const found = judge({statement(0, 5), statement(1, 9), statement(2, 5), statement(3, 8),
                            statement(0, 5), statement(1, 5), statement(3, 8)});
  REQUIRE(found.size() == 2);
  CHECK(found[0].ranks == std::vector{1});
  CHECK_FALSE(found[0].persistent);
  CHECK(found[1].ranks == std::vector{3});
  CHECK(found[1].persistent);
}

TEST_CASE("fingerprint: for a single rank the most frequent statement is right") {
  auto const found = judge({statement(0, 5), statement(0, 6), statement(0, 6), statement(0, 6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{0});
  CHECK_FALSE(found[0].persistent);
}

}  // namespace fingerprint_test
