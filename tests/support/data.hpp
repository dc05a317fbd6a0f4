// The folder of shared sample data: PARALLELLM_DATA, or ../shared/data next to the checkout.
#pragma once

#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "support/checkout.hpp"

namespace test {

/// The folder of sample data. Where there is none a test says that it is skipped, and the path is
/// empty.
inline std::filesystem::path data_folder() {
  if (char const* folder = std::getenv("PARALLELLM_DATA");
      folder != nullptr && std::filesystem::is_directory(folder))
    return folder;
  auto const sibling = checkout() / "../shared/data";
  if (std::filesystem::is_directory(sibling)) return std::filesystem::canonical(sibling);
  MESSAGE("skipped: no ../shared/data");
  return {};
}

}  // namespace test
