#include <doctest/doctest.h>

#include <mpt/console/format.hpp>

namespace format_test {

TEST_CASE("count: three significant digits and a suffix") {
  CHECK(mpt::console::count(0) == "0");
  CHECK(mpt::console::count(950) == "950");
  CHECK(mpt::console::count(999.6) == "1.00k");
  CHECK(mpt::console::count(18432) == "18.4k");
  CHECK(mpt::console::count(125311488) == "125M");
  CHECK(mpt::console::count(2.5e9) == "2.50B");
}

TEST_CASE("bytes: binary units") {
  CHECK(mpt::console::bytes(512) == "512 B");
  CHECK(mpt::console::bytes(1536.0 * 1024 * 1024) == "1.5 GiB");
}

TEST_CASE("duration: reads like a clock") {
  CHECK(mpt::console::duration(7) == "0:07");
  CHECK(mpt::console::duration(161) == "2:41");
  CHECK(mpt::console::duration(3 * 3600 + 5 * 60) == "3:05:00");
  CHECK(mpt::console::duration(2 * 86400 + 4 * 3600) == "2d 04h");
  CHECK(mpt::console::duration(-1) == "–");
}

TEST_CASE("grouped: thousands are separated by commas") {
  CHECK(mpt::console::grouped(0) == "0");
  CHECK(mpt::console::grouped(999) == "999");
  CHECK(mpt::console::grouped(1234567) == "1,234,567");
  CHECK(mpt::console::grouped(-1000) == "-1,000");
}

}  // namespace format_test
