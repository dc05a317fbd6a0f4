// Where tests find the shared sample data (../shared/data beside the checkout, or PARALLELLM_DATA).
#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/checkout.hpp"

namespace test {

/// The folder of sample data, or an empty path when there is none: such tests skip with a word.
inline std::filesystem::path data_folder() {
  if (char const* folder = std::getenv("PARALLELLM_DATA");
      folder != nullptr && std::filesystem::is_directory(folder))
    return folder;
  auto const beside = checkout() / "../shared/data";
  if (std::filesystem::is_directory(beside)) return std::filesystem::canonical(beside);
  return {};
}

}  // namespace test
