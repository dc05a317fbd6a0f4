// Ranks whose lines differ get an error that names the first difference.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/train/setup/stepper_setup.hpp>

#include "parallel/support/files.hpp"

namespace setup_agreement_test {

using lines = std::vector<std::string>;

std::string refusal_of(std::vector<lines> const& by_rank) {
  return test::message_of([&] {
    parallel::threads::run(
        static_cast<int>(by_rank.size()), [&](parallel::threads::communicator& world) {
          parallel::train::agree_on_setup(world, by_rank[static_cast<std::size_t>(world.rank())]);
        });
  });
}

TEST_CASE("setup agreement: the first differing line is named at any position") {
  lines const all_lines{"a 1", "b 2", "c 3", "d 4", "e 5", "f 6", "g 7"};
  CHECK(refusal_of({all_lines}).empty());
  CHECK(refusal_of({all_lines, all_lines, all_lines}).empty());
  for (std::size_t changed_line = 0; changed_line < all_lines.size(); ++changed_line) {
    auto other = all_lines;
    other[changed_line] = "x 0";
    other.back() += " or more";
    CHECK(test::contains(
        refusal_of({all_lines, other, all_lines}),
        parallel::concat("ranks make different steppers: ranks 0, 2 have ", all_lines[changed_line],
                         "; rank 1 has ", other[changed_line],
                         "; give all ranks the same options, optimizers and "
                         "model")));
  }
}

TEST_CASE("setup agreement: a line that one rank lacks is named") {
  lines const all_lines{"a 1", "b 2", "c 3"};
  for (std::size_t count = 0; count < all_lines.size(); ++count)
    CHECK(test::contains(
        refusal_of({all_lines, lines(all_lines.begin(),
                                     all_lines.begin() + static_cast<std::ptrdiff_t>(count))}),
        parallel::concat("rank 0 has ", all_lines[count],
                         "; rank 1 has no more parameters; give")));
}

TEST_CASE("setup agreement: a line too long for one message is cut") {
  CHECK(test::contains(refusal_of({{std::string(500, 'a')}, {std::string(500, 'b')}}),
                       std::string(100, 'b') + "; give all ranks"));
}

}  // namespace setup_agreement_test
