// The committed golden numbers (tests/golden; made by tests/reference/make_golden.py).
#pragma once

#include <filesystem>

namespace test {

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "golden";
}

}  // namespace test
