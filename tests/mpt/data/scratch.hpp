// A temporary folder for the files of one test, and helpers to fill and read it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/error.hpp>

namespace data_test {

class scratch_folder {
 public:
  scratch_folder() {
    auto name = (std::filesystem::temp_directory_path() / "parallellm-test-XXXXXX").native();
    parallel::require(::mkdtemp(name.data()) != nullptr, std::string("cannot make a folder"));
    path_ = name;
  }
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

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

/// The message with which `action` throws parallel::error, or "no error".
template <class Action>
[[nodiscard]] std::string message_of(Action const& action) {
  try {
    action();
  } catch (parallel::error const& problem) {
    return problem.what();
  }
  return "no error";
}

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace data_test
