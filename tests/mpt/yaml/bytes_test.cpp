#include <doctest/doctest.h>

#include <mpt/yaml/bytes.hpp>

TEST_CASE("parse_bytes: decimal and binary units are read, malformed texts are refused") {
  CHECK(mpt::parse_bytes("80GB") == 80'000'000'000);
  CHECK(mpt::parse_bytes("80 GiB") == 80ULL << 30U);
  CHECK(mpt::parse_bytes("1.5kib") == 1536);
  CHECK(mpt::parse_bytes("4096") == 4096);
  CHECK(mpt::parse_bytes("24e9") == 24'000'000'000);
  for (char const* const text : {"", "GB", "80GX", "-1GB", "0", "nan", "1e30", "8 0GB", "inf"})
    CHECK_MESSAGE(!mpt::parse_bytes(text), text);
}
