// Tests of YAML 1.1 scalars: what is a number, an integer, a boolean, and what is not.
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include <doctest/doctest.h>

#include <mpt/config/scalar.hpp>

namespace scalar_test {

TEST_CASE("numbers are read as written in LLM Foundry's files") {
  CHECK(mpt::parse_number("6.0e-4") == 6.0e-4);
  CHECK(mpt::parse_number("1e-08") == 1e-8);
  CHECK(mpt::parse_number("1.0e-08") == 1e-8);
  CHECK(mpt::parse_number(".5") == 0.5);
  CHECK(mpt::parse_number("-3") == -3.0);
  CHECK(mpt::parse_number("+3.25") == 3.25);
  CHECK(mpt::parse_number("4_000_000") == 4e6);
}

TEST_CASE("what is not a finite number is none") {
  for (std::string_view const text :
       {"",   "+",  "-",   "+-1", "++1", "1e999", "inf",  "-inf", "nan",    ".nan", "0x10",
        "1 ", " 1", "1,5", "_1",  "1_",  "1__0",  "1._0", "abc",  "2e9tok", "e5",   "-e5"})
    CHECK_MESSAGE(!mpt::parse_number(text), text);
}

TEST_CASE("integers may be written as numbers without a fraction, and only exactly") {
  CHECK(mpt::parse_integer("2048") == 2048);
  CHECK(mpt::parse_integer("-1") == -1);
  CHECK(mpt::parse_integer("+17") == 17);
  CHECK(mpt::parse_integer("1e3") == 1000);
  CHECK(mpt::parse_integer("256.0") == 256);
  CHECK(mpt::parse_integer("2_048") == 2048);
  CHECK(mpt::parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (std::string_view const text :
       {"", "2.5", "1e-3", "9223372036854775808", "1e30", "0x10", "a"})
    CHECK_MESSAGE(!mpt::parse_integer(text), text);
}

TEST_CASE("booleans are those of YAML 1.1") {
  for (std::string_view const text : {"true", "True", "TRUE", "yes", "on"})
    CHECK(mpt::parse_bool(text) == true);
  for (std::string_view const text : {"false", "False", "FALSE", "no", "Off"})
    CHECK(mpt::parse_bool(text) == false);
  for (std::string_view const text : {"", "1", "0", "tRUE", "y", "nope"})
    CHECK_MESSAGE(!mpt::parse_bool(text), text);
}

}  // namespace scalar_test
