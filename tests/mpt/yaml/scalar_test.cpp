// Tests of YAML 1.1 scalars: what is a number, an integer, a boolean, and what is not.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include <mpt/yaml/scalar.hpp>

namespace scalar_test {

TEST_CASE("parse_number: reads the forms in LLM Foundry's files") {
  CHECK(mpt::parse_number("6.0e-4") == 6.0e-4);
  CHECK(mpt::parse_number("1e-08") == 1e-8);
  CHECK(mpt::parse_number("1.0e-08") == 1e-8);
  CHECK(mpt::parse_number(".5") == 0.5);
  CHECK(mpt::parse_number("-3") == -3.0);
  CHECK(mpt::parse_number("+3.25") == 3.25);
  CHECK(mpt::parse_number("4_000_000") == 4e6);
}

TEST_CASE("parse_number: rejects text that is not a finite number") {
  for (std::string_view const text :
       {"",   "+",  "-",   "+-1", "++1", "1e999", "inf",    "-inf", "nan", ".nan", "0o30",
        "1 ", " 1", "1,5", "_1",  "08",  "1._0",  "2e9tok", "abc",  "e5",  "-e5",  "0X1F"})
    CHECK_MESSAGE(!mpt::parse_number(text), text);
}

TEST_CASE("parse_integer: accepts numbers without a fraction that are exact") {
  CHECK(mpt::parse_integer("2048") == 2048);
  CHECK(mpt::parse_integer("-1") == -1);
  CHECK(mpt::parse_integer("+17") == 17);
  CHECK(mpt::parse_integer("1e3") == 1000);
  CHECK(mpt::parse_integer("256.0") == 256);
  CHECK(mpt::parse_integer("2_048") == 2048);
  CHECK(mpt::parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (std::string_view const text :
       {"", "2.5", "1e-3", "9223372036854775808", "1e30", "0o30", "a"})
    CHECK_MESSAGE(!mpt::parse_integer(text), text);
}

// Values of OmegaConf 2.3, with which LLM Foundry reads its files.
TEST_CASE("parse_integer: reads other bases as OmegaConf does and rejects what is text there") {
  for (auto const& one : {std::pair<std::string_view, std::int64_t>{"030", 24},
                          {"0x1F", 31},
                          {"0b101", 5},
                          {"1_000", 1000},
                          {"1__0", 10},
                          {"1_", 1},
                          {"010_0", 64},
                          {"1:30", 90},
                          {"190:20:30", 685230},
                          {"-1:30", -90},
                          {"-030", -24},
                          {"+030", 24},
                          {"0_7", 7},
                          {"00", 0},
                          {"-0", 0},
                          {"0x_1F", 31},
                          {"0777", 511},
                          {"0x1f", 31},
                          {"030e1", 300},
                          {"1e5", 100000},
                          {"1.e3", 1000},
                          {"5.", 5}}) {
    CAPTURE(std::string(one.first));
    CHECK(mpt::parse_integer(one.first) == one.second);
    CHECK(mpt::parse_number(one.first) == static_cast<double>(one.second));
  }
  for (auto const& one : {std::pair<std::string_view, double>{"030.5", 30.5},
                          {"09.5", 9.5},
                          {"0.0_1", 0.01},
                          {"1e-4", 1e-4},
                          {"6.0E-4", 6e-4},
                          {"1_000.5", 1000.5}}) {
    CAPTURE(std::string(one.first));
    CHECK(mpt::parse_number(one.first) == one.second);
    CHECK(!mpt::parse_integer(one.first));
  }
  for (std::string_view const text :
       {"08", "0_8", "0o30", "1:60", "0:30", "01:30", "0xg", "0b", "0X1F", "_1", "1:", "1:2_0"}) {
    CHECK_MESSAGE(!mpt::parse_integer(text), text);
    CHECK_MESSAGE(!mpt::parse_number(text), text);
  }
  CHECK(mpt::parse_decimal("030") == 30);  // of a time: 030ba
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
