// Tables of tuned attention: round trip, and untrusted text.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include <parallel/ops/cuda/attention/attention_tuning.hpp>
#include <support/text_cases.hpp>

namespace attention_tuning_test {

using parallel::error;
using parallel::cuda::attention_problem;
using parallel::cuda::attention_tuning;

constexpr attention_problem forward{.batch = 16,
                                    .sequence = 2048,
                                    .heads = 12,
                                    .key_heads = 4,
                                    .head_dim = 64,
                                    .alibi = true,
                                    .q = {2621440, 1280},
                                    .k = {2621441, 1281},
                                    .v = {2621442, 1282},
                                    .out = {1572864, 768}};

attention_problem backward() {
  auto out = forward;
  out.window = 255;
  out.full_sequence = 4096;
  out.documents = out.backward = out.deterministic = true;
  out.dq = {1, 2};
  out.dk = {3, 4};
  out.dv = {5, 6};
  out.dout = {7, 8};
  return out;
}

attention_tuning example() {
  attention_tuning table("library 1.2, some device");
  table.set(forward, 2);
  table.set(backward(), 0);
  for (auto const& [documents, plan] : {std::pair{64, 1}, {8, 3}}) {
    auto entry = forward;
    entry.documents = true;
    entry.max_documents = documents;
    table.set(entry, plan);
  }
  return table;
}

char const* const example_text =
    "attention_tuning 4 4 library 1.2, some device\n"
    "16 2048 12 4 64 -1 0 1 0 0 0 0 2621440 1280 2621441 1281 2621442 1282 1572864 768 "
    "0 0 0 0 0 0 0 0 0 2\n"
    "16 2048 12 4 64 -1 0 1 1 0 0 0 2621440 1280 2621441 1281 2621442 1282 1572864 768 "
    "0 0 0 0 0 0 0 0 8 3\n"
    "16 2048 12 4 64 -1 0 1 1 0 0 0 2621440 1280 2621441 1281 2621442 1282 1572864 768 "
    "0 0 0 0 0 0 0 0 64 1\n"
    "16 2048 12 4 64 255 0 1 1 4096 1 1 2621440 1280 2621441 1281 2621442 1282 1572864 768 "
    "1 2 3 4 5 6 7 8 0 0\n";

TEST_CASE("attention_tuning: a table survives being written and read") {
  CHECK(to_text(example()) == example_text);
  CHECK(attention_tuning::parse(example_text, "x") == example());
}

TEST_CASE(
    "attention_tuning: lower_bound finds the entry for at least the requested number of "
    "documents") {
  auto const table = example();
  auto asked = forward;
  asked.documents = true;
  asked.max_documents = 9;
  auto const found = table.entries().lower_bound(asked);
  REQUIRE(found != table.entries().end());
  CHECK(found->first.max_documents == 64);
}

TEST_CASE("attention_tuning: problems that differ in any member have different entries") {
  attention_tuning table("all");
  int count = 0;
  for (int bits = 0; bits < 32; ++bits) {
    auto problem = forward;
    problem.alibi = (bits & 1) != 0;
    problem.documents = (bits & 2) != 0;
    problem.backward = (bits & 4) != 0;
    problem.deterministic = (bits & 8) != 0;
    problem.queries_after_keys = (bits & 16) != 0;
    table.set(problem, count++);
    problem.dout.row = 3;
    table.set(problem, count++);
  }
  CHECK(table.entries().size() == 64);
  CHECK(attention_tuning::parse(to_text(table), "x") == table);
}

TEST_CASE(
    "attention_tuning: text that is cut off or changed anywhere is refused, or another table") {
  std::string const whole = example_text;
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(static_cast<void>(attention_tuning::parse(whole.substr(0, size), "x")), error);
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (char const c : {'0', ' ', '\n', '-', '\0', '\xff'}) {
      auto changed = whole;
      changed[i] = c;
      if (changed == whole) continue;
      bool equal = false;
      try {
        equal = attention_tuning::parse(changed, "x") == example();
      } catch (error const&) {
      }
      CHECK_FALSE(equal);
    }
}

TEST_CASE("attention_tuning: malformed text is refused with its line and what was expected") {
  for (auto const& [change, message] :
       test::text_cases("parallel/ops/cuda/tuning/refused_tables.txt", "attention"))
    CHECK_THROWS_WITH_AS(
        static_cast<void>(attention_tuning::parse(test::changed(example_text, change), "t.txt")),
        message.c_str(), error);
}

}  // namespace attention_tuning_test
