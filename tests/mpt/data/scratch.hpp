// Helpers that fill and read the temporary folder of a test.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>

namespace data_test {

using scratch_folder = test::temporary_folder;
using test::contains;
using test::message_of;

inline void put_file(std::filesystem::path const& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

[[nodiscard]] inline std::string get_file(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Names (relative) and contents of all files under `folder`.
[[nodiscard]] inline std::map<std::string, std::string> get_folder(
    std::filesystem::path const& folder) {
  std::map<std::string, std::string> out;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      out[std::filesystem::relative(entry.path(), folder).native()] = get_file(entry.path());
  return out;
}

}  // namespace data_test
