// Settings that a configuration refuses and their messages: a section of refused.txt.
#pragma once

#include <string>
#include <vector>

#include <support/text_cases.hpp>

namespace test {

inline std::vector<text_case> refused_settings(std::string const& section) {
  return text_cases("mpt/config/refused.txt", section);
}

}  // namespace test
