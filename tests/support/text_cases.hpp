// Cases of a test in a text file: what is given, of one line or more, then what is expected of it,
// indented by two spaces. A line "[NAME]  path/of_test.cpp" begins the section that this test
// reads; lines before the first are comments.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <support/checkout.hpp>

namespace test {

struct text_case {
  std::string text;
  std::string expected;

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) found.push_back(line);
    return found;
  }
};

/// The cases of a section of a file below tests/.
inline std::vector<text_case> text_cases(std::filesystem::path const& file,
                                         std::string const& section) {
  std::vector<text_case> found;
  std::ifstream stream(checkout() / "tests" / file);
  bool is_section = false;
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    bool const is_heading = line.starts_with('[') && line.ends_with("_test.cpp");
    if (is_heading) is_section = line.starts_with('[' + section + ']');
    if (!is_section || is_heading || line.empty()) continue;
    if (line.starts_with("  "))
      found.push_back({std::exchange(text, ""), line.substr(2)});
    else
      text += (text.empty() ? "" : "\n") + line;
  }
  REQUIRE(text.empty());
  REQUIRE(!found.empty());
  return found;
}

/// The text after a change: a line that stands in it, and one that takes its place; or none.
inline std::string changed(std::string text, std::string const& change) {
  auto const end = std::min(change.find('\n'), change.size());
  auto const position = text.find(change.substr(0, end));
  REQUIRE(position != std::string::npos);
  return text.replace(position, end, end < change.size() ? change.substr(end + 1) : "");
}

}  // namespace test
