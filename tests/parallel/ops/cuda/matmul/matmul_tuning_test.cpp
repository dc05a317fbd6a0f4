// Tables of tuned products: round trip, agreement between ranks, and untrusted text.
#include <doctest/doctest.h>

#include <string>

#include <parallel/ops/cuda/matmul/matmul_tuning.hpp>
#include <support/text_cases.hpp>

namespace matmul_tuning_test {

using namespace parallel;
using cuda::matmul_algorithm;
using cuda::matmul_shape;
using cuda::matmul_tuning;

constexpr matmul_shape weight_gradient{.m = 2304,
                                       .n = 768,
                                       .k = 32768,
                                       .transpose_a = true,
                                       .accumulate = true,
                                       .input = dtype::bf16,
                                       .output = dtype::f32,
                                       .alignment_c = 4};
constexpr matmul_shape forward{.m = 7, .n = 5, .k = 3, .transpose_b = true};
constexpr matmul_algorithm algorithm{.words = {1, 0xfedcba9876543210U, 0, ~0ULL, 5, 6, 7, 0x8},
                                     .guess = 3};
constexpr matmul_algorithm other{.words = {9}};

matmul_tuning example() {
  matmul_tuning table("library 1.2, some device");
  table.set(weight_gradient, algorithm);
  table.set(forward, other);
  return table;
}

char const* const example_text =
    "matmul_tuning 1 2 library 1.2, some device\n"
    "7 5 3 NT= f32 f32 16 16 16 0 0000000000000009 0000000000000000 0000000000000000 "
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000\n"
    "2304 768 32768 TN+= bf16 f32 16 16 4 3 0000000000000001 fedcba9876543210 0000000000000000 "
    "ffffffffffffffff 0000000000000005 0000000000000006 0000000000000007 0000000000000008\n";

TEST_CASE(
    "matmul_tuning: a table survives being written and read, and equal tables give equal text") {
  CHECK(to_text(example()) == example_text);
  CHECK(matmul_tuning::parse(example_text, "x") == example());
  matmul_tuning const empty("y");
  CHECK(matmul_tuning::parse(to_text(empty), "x") == empty);
}

TEST_CASE("matmul_tuning: shapes that differ in any member have different entries") {
  matmul_tuning table("all");
  int count = 0;
  for (auto const& [input, output] : cuda::detail::tuned_types)
    for (int bits = 0; bits < 24; ++bits)
      for (unsigned const a : {1U, 16U})
        for (unsigned const b : {2U, 8U})
          for (parallel::index const m : {1, 2})
            table.set({.m = m,
                       .n = 3 - m,
                       .k = 1,
                       .transpose_a = (bits & 1) != 0,
                       .transpose_b = (bits & 2) != 0,
                       .accumulate = (bits & 4) != 0,
                       .epilogue = static_cast<cuda::matmul_epilogue>(bits / 8),
                       .input = input,
                       .output = output,
                       .alignment_a = a,
                       .alignment_b = b},
                      {.guess = count++});
  CHECK(table.entries().size() == 576);
  CHECK(matmul_tuning::parse(to_text(table), "x") == table);
}

TEST_CASE(
    "matmul_tuning: merging keeps existing entries, so merging in the order of ranks gives one "
    "table") {
  matmul_tuning first("one"), second("one");
  first.set(forward, algorithm);
  second.set(forward, other);
  second.set(weight_gradient, other);
  auto merged = first;
  merged.merge(second);
  CHECK(merged.entries().at(forward) == algorithm);
  CHECK(merged.entries().at(weight_gradient) == other);
  CHECK(merged.entries().size() == 2);
  CHECK_THROWS_WITH_AS(merged.merge(matmul_tuning("two")),
                       "matmul_tuning: made for 'two', which cannot be merged with one made for "
                       "'one'",
                       error);
}

TEST_CASE("matmul_tuning: a table states in one line the library and device that it was made for") {
  CHECK_THROWS_AS(matmul_tuning(""), error);
  CHECK_THROWS_AS(matmul_tuning("a\nb"), error);
}

TEST_CASE("matmul_tuning: text that is cut off anywhere is refused") {
  std::string const whole = example_text;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(static_cast<void>(matmul_tuning::parse(whole.substr(0, size), "x")), error);
  }
}

TEST_CASE("matmul_tuning: text with any byte changed is refused, or another table") {
  std::string const whole = example_text;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (char const c : {'0', 'T', ' ', '\n', '-', '\0', '\xff'}) {
      auto changed = whole;
      changed[i] = c;
      if (changed == whole) continue;
      bool equal = false;
      try {
        equal = matmul_tuning::parse(changed, "x") == example();
      } catch (error const&) {
      }
      CHECK_FALSE(equal);
    }
}

TEST_CASE("matmul_tuning: malformed text is refused with its line and what was expected") {
  for (auto const& [change, message] :
       test::text_cases("parallel/ops/cuda/tuning/refused_tables.txt", "products"))
    CHECK_THROWS_WITH_AS(
        static_cast<void>(matmul_tuning::parse(test::changed(example_text, change), "t.txt")),
        message.c_str(), error);
}

}  // namespace matmul_tuning_test
