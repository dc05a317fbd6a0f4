#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>

namespace error_test {
namespace {

TEST_CASE("concat: joins text, characters, numbers, booleans and call sites") {
  std::string const name = "wte";
  CHECK(parallel::concat() == "");
  CHECK(parallel::concat("rank ", 3, " of ", std::uint64_t{18446744073709551615U}) ==
        "rank 3 of 18446744073709551615");
  CHECK(parallel::concat(name, '[', -7, ']') == "wte[-7]");
  CHECK(parallel::concat(0.5, ' ', 1e300, ' ', -2.5F) == "0.5 1e+300 -2.5");
  CHECK(parallel::concat(true, '/', false) == "true/false");
  CHECK(parallel::concat(0.1) == "0.1");  // shortest text that reads back as the same number
  auto const site = parallel::call_site::current();
  CHECK(parallel::concat(site) == "error_test.cpp:" + std::to_string(site.line()));
}

TEST_CASE("require: throws its message only if its condition fails") {
  CHECK_NOTHROW(parallel::require(true, "not built"));
  CHECK_THROWS_WITH_AS(parallel::require(false, "expected ", 4, " ranks, found ", 3),
                       "expected 4 ranks, found 3", parallel::error);
}

TEST_CASE("fail: always throws") {
  CHECK_THROWS_WITH_AS(parallel::fail("a file of ", 12, " bytes"), "a file of 12 bytes",
                       parallel::error);
}

TEST_CASE("error: a message is safe for a terminal whatever it quotes") {
  CHECK_THROWS_WITH_AS(
      parallel::fail("f: no key '", "\x1b[2J\r\x7f\xc3", "'\nthe caf\xc3\xa9's keys"),
      "f: no key '?[2J?\?\?'\nthe caf\xc3\xa9's keys", parallel::error);
  std::string const cut(4000, 'x');
  CHECK_THROWS_WITH_AS(parallel::fail(std::string(100'000, 'x')), (cut + "...").c_str(),
                       parallel::error);
  // the cut leaves whole characters
  CHECK_THROWS_WITH_AS(parallel::fail(cut.substr(1), "\xc3\xa9"), (cut.substr(1) + "...").c_str(),
                       parallel::error);
}

}  // namespace
}  // namespace error_test
