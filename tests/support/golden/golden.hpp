// The committed golden numbers (tests/golden; made by tests/reference/make_golden.py).
#pragma once

#include <filesystem>

#include "support/checkout.hpp"

namespace test {

inline std::filesystem::path golden_folder() { return checkout() / "tests" / "golden"; }

}  // namespace test
