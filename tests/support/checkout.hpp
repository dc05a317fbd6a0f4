// The checkout that the tests belong to.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace test {

/// ctest names it; a program started by hand goes by where this file was compiled (a relative path
/// with a compiler cache that shares between checkouts).
inline std::filesystem::path checkout() {
  if (char const* named = std::getenv("PARALLELLM_CHECKOUT"); named != nullptr) return named;
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

}  // namespace test
