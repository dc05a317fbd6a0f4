// The checkout to which the tests belong.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace test {

/// The folder of the checkout. ctest sets PARALLELLM_CHECKOUT; a program started by hand uses the
/// path of this file at compilation (a relative path with a compiler cache that checkouts share).
inline std::filesystem::path checkout() {
  if (char const* named = std::getenv("PARALLELLM_CHECKOUT"); named != nullptr) return named;
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

}  // namespace test
