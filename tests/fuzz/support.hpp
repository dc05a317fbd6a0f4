// Shared by the targets: catching refusals, stating properties, and writing files to read from.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include <parallel/core/error.hpp>

namespace fuzz {

/// Fails the target when a property that must hold for every accepted input does not.
inline void ensure(bool condition, char const* property) {
  if (!condition) throw std::logic_error(property);
}

/// Runs `use` and returns whether it refused the input. The message of a refusal must be printable.
template <class Use>
bool refused(Use&& use) {
  try {
    use();
    return false;
  } catch (parallel::error const& problem) {
    std::string_view const message = problem.what();
    ensure(!message.empty() && message.size() < 5000, "a refusal has a message of some lines");
    for (char const character : message)
      ensure(character == '\n' || (static_cast<unsigned char>(character) >= 0x20 &&
                                   static_cast<unsigned char>(character) != 0x7f),
             "a message holds no control characters");
    return true;
  }
}

/// A folder of this process, in memory if there is such a file system; the destructor removes it.
class scratch {
 public:
  scratch() {
    namespace fs = std::filesystem;
    fs::path const memory = "/dev/shm";
    auto const parent = ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
    path_ = parent / ("parallellm-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;

  /// Writes a file anew and returns its path.
  [[nodiscard]] std::filesystem::path file(std::string_view name, std::string_view content) const {
    auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace fuzz
