// Who is wrong, of what ranks say.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/train/fingerprint.hpp>

namespace fingerprint_test {

using namespace parallel::train;

/// A statement about unit `unit`.
fingerprint_statement says(int rank, std::uint64_t bits, int unit = 0) {
  return {{{.unit = unit}, bits}, rank};
}

TEST_CASE("ranks that agree, or speak of different things, are not wrong") {
  CHECK(judge({}).empty());
  CHECK(judge({says(0, 5), says(1, 6, 1), says(2, 7, 2)}).empty());
  CHECK(judge({says(0, 5), says(1, 5), says(1, 5), says(0, 6, 1), says(2, 6, 1)}).empty());
  fingerprint_statement other = says(0, 9);
  for (auto const member :
       {&fingerprint_subject::unit, &fingerprint_subject::piece, &fingerprint_subject::owner,
        &fingerprint_subject::tensor, &fingerprint_subject::context}) {
    auto changed = other;
    changed.print.subject.*member = 1;
    CHECK(judge({says(0, 5), changed}).empty());
  }
  other.print.subject.kind = fingerprint_kind::states;
  CHECK(judge({says(0, 5), other}).empty());
}

TEST_CASE("the one who differs from most is wrong") {
  auto const found = judge({says(0, 5), says(7, 6), says(2, 5), says(1, 4, 3), says(0, 4, 3)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{7});
  CHECK(found[0].persistent);
  CHECK(found[0].certain);
  CHECK(found[0].subject.unit == 0);
}

TEST_CASE("of two nobody knows which, unless one of them comes round") {
  auto const both = judge({says(4, 5), says(1, 6)});
  REQUIRE(both.size() == 1);
  CHECK(both[0].ranks == std::vector{1, 4});
  CHECK(both[0].persistent);
  CHECK_FALSE(both[0].certain);
  auto const once = judge({says(4, 5), says(1, 6), says(4, 6), says(1, 6)});
  REQUIRE(once.size() == 1);
  CHECK(once[0].ranks == std::vector{4});
  CHECK_FALSE(once[0].persistent);
  CHECK(once[0].certain);
  auto const random = judge({says(4, 5), says(1, 6), says(4, 7), says(1, 6)});
  REQUIRE(random.size() == 1);  // that says something else each time
  CHECK(random[0].ranks == std::vector{4});
  CHECK(random[0].persistent);
  CHECK(judge({says(4, 5), says(1, 6), says(4, 5), says(1, 6)})[0].ranks == std::vector{1, 4});
}

TEST_CASE("more ranks outweigh one that repeats itself") {
  auto const found = judge({says(0, 5), says(0, 5), says(0, 5), says(1, 6), says(2, 6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{0});
}

TEST_CASE("one who was wrong once and one who always is are two faults") {
  auto const found =
      judge({says(0, 5), says(1, 9), says(2, 5), says(3, 8), says(0, 5), says(1, 5), says(3, 8)});
  REQUIRE(found.size() == 2);
  CHECK(found[0].ranks == std::vector{1});
  CHECK_FALSE(found[0].persistent);
  CHECK(found[1].ranks == std::vector{3});
  CHECK(found[1].persistent);
}

TEST_CASE("alone, what was said most often is right") {
  auto const found = judge({says(0, 5), says(0, 6), says(0, 6), says(0, 6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{0});
  CHECK_FALSE(found[0].persistent);
}

}  // namespace fingerprint_test
