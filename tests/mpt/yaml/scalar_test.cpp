// Tests of YAML 1.1 scalars: what is a number, an integer, a boolean, and what is not.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <mpt/yaml/scalar.hpp>
#include <support/text_cases.hpp>

namespace scalar_test {

// The integers in other bases than ten are values of PyYAML 6.0 and of OmegaConf 2.3, with which
// LLM Foundry reads its files.
TEST_CASE("parse_integer, parse_number: read the texts that are numbers to OmegaConf") {
  for (auto const& [text, expected] : test::text_cases("mpt/yaml/texts.txt", "integers")) {
    CHECK(mpt::parse_integer(text) == std::stoll(expected));
    CHECK(mpt::parse_number(text) == static_cast<double>(std::stoll(expected)));
  }
  for (auto const& [text, expected] : test::text_cases("mpt/yaml/texts.txt", "numbers")) {
    CHECK(mpt::parse_number(text) == std::stod(expected));
    CHECK(!mpt::parse_integer(text));
  }
  CHECK(mpt::parse_number("4_000_000") == 4e6);
  CHECK(mpt::parse_number("-3") == -3.0);
  CHECK(mpt::parse_decimal("030") == 30);  // of a time: 030ba
}

TEST_CASE("parse_integer, parse_number: reject text that is no finite number, or not exact") {
  for (std::string_view const text :
       {"",     "+",    "-",    "+-1",  "++1",   "1e999", "inf",  "-inf",   "nan",  ".nan",
        "0o30", "1 ",   " 1",   "1,5",  "_1",    "08",    "1._0", "2e9tok", "abc",  "e5",
        "-e5",  "0X1F", "0_8",  "1:60", "0:30",  "01:30", "0xg",  "0b",     "1:",   "1:2_0",
        "0x_",  "0b_",  "0b12", "0x-1", "0x1p3", "1:030", "1_e3", "1e1_0",  "1:30:"}) {
    CHECK_MESSAGE(!mpt::parse_integer(text), text);
    CHECK_MESSAGE(!mpt::parse_number(text), text);
  }
  for (std::string_view const text : {"2.5", "1e-3", "9223372036854775808", "1e30"})
    CHECK_MESSAGE(!mpt::parse_integer(text), text);
}

TEST_CASE("parse_bool: accepts the booleans of YAML 1.1") {
  for (std::string_view const text : {"true", "True", "TRUE", "yes", "on"})
    CHECK(mpt::parse_bool(text) == true);
  for (std::string_view const text : {"false", "False", "FALSE", "no", "Off"})
    CHECK(mpt::parse_bool(text) == false);
  for (std::string_view const text : {"", "1", "0", "tRUE", "y", "nope"})
    CHECK_MESSAGE(!mpt::parse_bool(text), text);
}

}  // namespace scalar_test

TEST_CASE("parse_bytes: decimal and binary units are read, malformed texts are refused") {
  CHECK(mpt::parse_bytes("80GB") == 80'000'000'000);
  CHECK(mpt::parse_bytes("80 GiB") == 80ULL << 30U);
  CHECK(mpt::parse_bytes("1.5kib") == 1536);
  CHECK(mpt::parse_bytes("4096") == 4096);
  CHECK(mpt::parse_bytes("24e9") == 24'000'000'000);
  for (char const* const text : {"", "GB", "80GX", "-1GB", "0", "nan", "1e30", "8 0GB", "inf"})
    CHECK_MESSAGE(!mpt::parse_bytes(text), text);
}
