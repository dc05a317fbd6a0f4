// Tables of choices made by timing: agreement between ranks, and untrusted text, with a toy format
// of words. matmul_tuning_test checks every message.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include <parallel/ops/cuda/tuning/tuning_table.hpp>

namespace tuning_table_test {

using parallel::error;
using parallel::index;
using parallel::cuda::tuning_reader;

struct sorts {
  using key = index;
  using choice = int;
  static constexpr std::string_view name = "sort_tuning";
  static constexpr int version = 1;
  static constexpr std::string_view task = "sort";
  static void write(std::string& out, index count, int way) {
    out += parallel::concat(count, " ", way);
  }
  static std::pair<index, int> read(tuning_reader& in) {
    index const count = in.number("the count", 1, 100);
    return {count, static_cast<int>(in.number("the way", 0, 9))};
  }
};
using table = parallel::cuda::tuning_table<sorts>;

table example() {
  table out("a library");
  out.set(50, 3);
  out.set(7, 1);
  return out;
}
char const* const text = "sort_tuning 1 2 a library\n7 1\n50 3\n";

TEST_CASE("tuning_table: a table survives being written and read") {
  CHECK(to_text(example()) == text);
  CHECK(table::parse(text, "x") == example());
  CHECK(table::parse(to_text(table("y")), "x") == table("y"));
}

TEST_CASE("tuning_table: set replaces an entry, merge keeps existing entries") {
  auto one = example();
  one.set(7, 2);
  auto merged = example();
  one.set(9, 4);
  merged.merge(one);
  CHECK(merged.entries() == std::map<index, int>{{7, 1}, {9, 4}, {50, 3}});
  CHECK_THROWS_WITH_AS(
      merged.merge(table("another")),
      "sort_tuning: made for 'another', which cannot be merged with one made for 'a library'",
      error);
  CHECK_THROWS_WITH_AS(table("a\nb"),
                       "sort_tuning: the library and device must be described in one line", error);
}

TEST_CASE("tuning_table: a table can be read in front of other text, but parse refuses that text") {
  std::string const two_tables = std::string(text) + text;
  tuning_reader in(two_tables, "x");
  CHECK(table::read(in) == example());
  CHECK(!in.at_end());
  CHECK(table::read(in) == example());
  CHECK(in.at_end());
  CHECK_THROWS_WITH_AS(static_cast<void>(table::parse(two_tables, "x")),
                       "x, line 3: more entries than the 2 that the first line tells of", error);
}

TEST_CASE("tuning_table: damaged text is refused with the line and what was expected") {
  auto const refused = [](std::string const& damaged, char const* message) {
    CHECK_THROWS_WITH_AS(static_cast<void>(table::parse(damaged, "x")), message, error);
  };
  refused("", "x, line 1: cut off");
  refused("matmul_tuning 1 0 y\n", "x, line 1: not a table of sort_tuning");
  refused("sort_tuning 1 1 y\n7 1 1\n", "x, line 2: more than an entry has");
  refused("sort_tuning 1 2 y\n7 1\n7 2\n", "x, line 3: a second entry for the same sort");
  refused("sort_tuning 1 1 y\n7 12\n",
          "x, line 2: the way is '12', expected an integer from 0 to 9");
}

}  // namespace tuning_table_test
