#include <doctest/doctest.h>

#include <mpt/eval/python_text.hpp>

#include "mpt/eval/icl_support.hpp"

namespace python_text_test {

TEST_CASE("Python's text: white space is stripped as by str.strip") {
  CHECK(mpt::eval::strip(" \u2003\u00a0a b\x1c\n") == "a b");
  CHECK(mpt::eval::rstrip(" a\u200b \t") == " a\u200b");  // U+200B is no white space
  CHECK(mpt::eval::strip(" \n\u2028").empty());
}

TEST_CASE("Python's text: answers are normalised as by LLM Foundry's metric") {
  auto const golden = icl_test::load();
  REQUIRE(golden.at("answers").size() > 10);
  for (auto const& one : golden.at("answers"))
    CHECK(mpt::eval::normalise_answer(one.at("output").get<std::string>()) ==
          one.at("cleaned").get<std::string>());
}

}  // namespace python_text_test
