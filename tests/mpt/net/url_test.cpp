#include <mpt/net/url.hpp>

#include <string>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>

namespace url_test {

using namespace mpt::net;

TEST_CASE("url: an address is taken apart and put together") {
  auto const address = parse_url("HTTPS://Hub.Example:8443/a/b%20c?x=1&y=/#part");
  CHECK(address.scheme == "https");
  CHECK(address.host == "hub.example");
  CHECK(address.port == "8443");
  CHECK(address.path == "/a/b%20c");
  CHECK(address.query == "?x=1&y=/");
  CHECK(address.text() == "https://hub.example:8443/a/b%20c?x=1&y=/");
  CHECK(address.displayed() == "https://hub.example:8443/a/b%20c");
  CHECK(parse_url("http://[::1]:80?q").text() == "http://[::1]/?q");
}

TEST_CASE("url: servers are the same by scheme, host and port alone") {
  auto const hub = parse_url("https://hub.example/a");
  CHECK(hub.has_server_of(parse_url("https://HUB.example:443/b?c")));
  CHECK_FALSE(hub.has_server_of(parse_url("http://hub.example:443/a")));
  CHECK_FALSE(hub.has_server_of(parse_url("https://hub.example.evil/a")));
  CHECK_FALSE(hub.has_server_of(parse_url("https://hub.example:444/a")));
}

TEST_CASE("url: text that is not an address is refused, and a password is not quoted") {
  for (auto const* text :
       {"ftp://a/b", "file:///etc/passwd", "a/b", "https:/a", "http://", "http://a:0",
        "http://a:99999", "http://a b/", "http://a/\r\nX: y", "http://a\\b/"})
    CHECK_THROWS_AS(static_cast<void>(parse_url(text)), parallel::error);
  for (auto const* text : {"https://me:hunter2@hub.example/", "postgresql://me:hunter2@db/x"}) {
    try {
      static_cast<void>(parse_url(text));
      FAIL("taken");
    } catch (parallel::error const& problem) {
      CHECK(std::string(problem.what()).find("hunter2") == std::string::npos);
    }
  }
}

TEST_CASE("url: references are resolved as RFC 3986 says") {
  auto const base = parse_url("http://a/b/c/d?q");
  struct row {
    char const* reference;
    char const* expected;
  };
  for (auto const& [reference, expected] :
       {row{"g", "http://a/b/c/g"}, row{"./g", "http://a/b/c/g"}, row{"g/", "http://a/b/c/g/"},
        row{"/g", "http://a/g"}, row{"//g", "http://g/"}, row{"?y", "http://a/b/c/d?y"},
        row{"g?y", "http://a/b/c/g?y"}, row{"..", "http://a/b/"}, row{"../g", "http://a/b/g"},
        row{"../../g", "http://a/g"}, row{"../../../g", "http://a/g"},
        row{"https://h/x", "https://h/x"}, row{"g#s", "http://a/b/c/g"},
        row{"g;x=1/../y", "http://a/b/c/y"}})
    CHECK(join_url(base, reference).text() == expected);
  CHECK_THROWS_AS(static_cast<void>(join_url(base, "javascript:x")), parallel::error);
}

TEST_CASE("url: percent encoding leaves unreserved characters") {
  CHECK(percent_encoded("a b/ü~-._%") == "a%20b%2F%C3%BC~-._%25");
  CHECK(percent_encoded("a b/c", true) == "a%20b/c");
}

}  // namespace url_test
