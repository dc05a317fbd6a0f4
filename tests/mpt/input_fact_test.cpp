// The facts that ranks compare: the first difference is named with its input, values and rank.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/input_fact.hpp>
#include <parallel/support/files.hpp>

namespace input_fact_test {

using mpt::input_facts;

TEST_CASE(
    "input facts: the first difference is a clause; paths and one-sided optional facts are none") {
  input_facts const expected{{"the configuration", "a.yaml", "seed", "17"},
                             {"the weights", "base", "wte", "xxh3 1"},
                             {"the data", "here", "hashes (zstd)", "xxh3 2", true},
                             {"the data", "here", "tokens", "xxh3 3"}};
  struct change {
    input_facts facts;
    std::string clause;  // "": none
  };
  auto const with = [&](std::size_t place, mpt::input_fact const& fact) {
    auto facts = expected;
    facts[place] = fact;
    return facts;
  };
  auto const without = [&](std::size_t place) {
    auto facts = expected;
    facts.erase(facts.begin() + static_cast<std::ptrdiff_t>(place));
    return facts;
  };
  std::vector<change> const changes{
      {expected, ""},
      {with(1, {"the weights", "another/path", "wte", "xxh3 1"}), ""},
      {with(2, {"the data", "here", "hashes (none)", "xxh3 9", true}), ""},
      {without(2), ""},
      {with(0, {"the configuration", "b.yaml", "seed", "18"}),
       "the configuration b.yaml, seed: 18 on rank 3, 17 on rank 0"},
      {with(1, {"the weights", "base", "wte", "xxh3 5"}),
       "the weights base, wte: xxh3 5 on rank 3, xxh3 1 on rank 0"},
      {with(2, {"the data", "here", "hashes (zstd)", "xxh3 4", true}),
       "the data here, hashes (zstd): xxh3 4 on rank 3, xxh3 2 on rank 0"},
      {without(3), "the data here, tokens: nothing on rank 3, xxh3 3 on rank 0"},
      {with(3, {"the data", "here", "words", "xxh3 3"}),
       "the data here, words: xxh3 3 on rank 3, nothing on rank 0"}};
  for (auto const& change : changes) {
    CAPTURE(change.clause);
    CHECK(mpt::input_difference(expected, change.facts, 3).value_or("") == change.clause);
    CHECK(mpt::parse_input_facts(to_text(change.facts)) == change.facts);
  }
}

TEST_CASE("input facts: two inputs of one name are compared in their order") {
  input_facts const expected{{"the weights of m", "a", "wte", "xxh3 1"},
                             {"the weights of m", "b", "wte", "xxh3 2"},
                             {"the evaluation", "", "batch size", "4"}};
  auto const difference = [&](std::size_t place, std::string const& value) {
    auto found = expected;
    found[place].value = value;
    return mpt::input_difference(expected, found, 3).value_or("");
  };
  CHECK(difference(0, "xxh3 1").empty());
  CHECK(difference(0, "xxh3 2") == "the weights of m a, wte: xxh3 2 on rank 3, xxh3 1 on rank 0");
  CHECK(difference(1, "xxh3 1") == "the weights of m b, wte: xxh3 1 on rank 3, xxh3 2 on rank 0");
  CHECK(difference(2, "5") == "the evaluation, batch size: 5 on rank 3, 4 on rank 0");
  auto const fewer = input_facts{expected[0], expected[2]};
  CHECK(mpt::input_difference(expected, fewer, 3) ==
        "the weights of m b, wte: nothing on rank 3, xxh3 2 on rank 0");
  CHECK(mpt::input_difference(fewer, expected, 3) ==
        "the weights of m b, wte: xxh3 2 on rank 3, nothing on rank 0");
}

TEST_CASE("input facts: sampled places are all of a few, else sixteen with both ends") {
  CHECK(mpt::sampled_places(0, "a").empty());
  CHECK(mpt::sampled_places(3, "a") == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(mpt::sampled_places(16, "a").size() == 16);
  auto const places = mpt::sampled_places(1'000'000, "a");
  CHECK(places.size() == 16);
  CHECK(places.front() == 0);
  CHECK(places.back() == 999'999);
  CHECK(places == mpt::sampled_places(1'000'000, "a"));
  CHECK(places != mpt::sampled_places(1'000'000, "b"));
}

TEST_CASE("input facts: the checksum of a file is XXH3 of its bytes") {
  test::temporary_folder const folder;
  test::write_all(folder / "some", "abc");
  CHECK(mpt::file_checksum(folder / "some") == "xxh3 78af5f94892f3950");  // xxhsum -H3
}

}  // namespace input_fact_test
