#include <string_view>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>

namespace call_site_test {
namespace {

using parallel::call_site;

constexpr unsigned line_of_call(call_site caller = call_site::current()) { return caller.line(); }

template <class T>
constexpr unsigned line_of_call(T, call_site caller = call_site::current()) {
  return caller.line();
}

static_assert(line_of_call() == __LINE__);

TEST_CASE("call_site: a default argument is the line of the call") {
  CHECK(line_of_call() == __LINE__);
  CHECK(line_of_call(1) == __LINE__);
  auto const in_lambda = [](auto value) { return line_of_call(value) == __LINE__; };
  CHECK(in_lambda(1));
  CHECK(std::string_view(call_site::current().file_name()) == __FILE__);
}

TEST_CASE("call_site: a default-constructed one has no file and line 0") {
  CHECK(call_site().line() == 0);
  CHECK(std::string_view(call_site().file_name()).empty());
}

}  // namespace
}  // namespace call_site_test
