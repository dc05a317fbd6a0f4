// files: helpers for tests of files: a temporary folder, reads and writes, the message of an error.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>
#include <parallel/core/temporary_folder.hpp>

namespace test {

/// A new empty folder, removed with its content by the destructor.
class temporary_folder : public parallel::temporary_folder {
 public:
  temporary_folder()
      : parallel::temporary_folder(std::filesystem::temp_directory_path(), "parallellm-test-") {}
  [[nodiscard]] std::filesystem::path operator/(std::filesystem::path const& name) const {
    return path() / name;
  }
};

inline std::string read_all(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  parallel::require(in.good(), "cannot read ", path.native());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_all(std::filesystem::path const& path, std::string const& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  parallel::require(out.good(), "cannot write ", path.native());
}

/// The message of the `parallel::error` that `action` throws; "" if it throws none.
template <class Action>
std::string message_of(Action action) {
  try {
    action();
    return {};
  } catch (parallel::error const& problem) {
    return problem.what();
  }
}

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace test
