// Settings that a configuration refuses and their messages: a section of refused.txt, which says
// its form.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <support/checkout.hpp>

namespace test {

struct refused_setting {
  std::string text;
  std::string message;

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) found.push_back(line);
    return found;
  }
};

inline std::vector<refused_setting> refused_settings(std::string const& section) {
  std::vector<refused_setting> found;
  std::ifstream file(checkout() / "tests" / "mpt" / "config" / "refused.txt");
  bool is_section = false;
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) is_section = line.starts_with('[' + section + ']');
    if (!is_section || line.empty() || line.starts_with('[')) continue;
    if (line.starts_with("  "))
      found.push_back({std::exchange(text, ""), line.substr(2)});
    else
      text += (text.empty() ? "" : "\n") + line;
  }
  REQUIRE(text.empty());
  REQUIRE(!found.empty());
  return found;
}

}  // namespace test
