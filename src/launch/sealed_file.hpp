// sealed_file: the messages between the nodes of a run: small files in a shared folder, replaced
// atomically, each with a seal over its name and its text by the run's key.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <parallel/core/file.hpp>

#include <launch/run_key.hpp>

namespace apps {

[[nodiscard]] inline double seconds_of(timespec const& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A file's text, and the time of its writing by the clock of the folder's machine.
struct sealed_text {
  nlohmann::json text;  // null: the seal is wrong
  double written = 0;
};

/// Replaces `file`. The name of the temporary file holds `writer`, so that two writers of one file
/// do not interfere.
inline void write_sealed(std::filesystem::path const& file, run_key const& key,
                         std::string const& writer, std::string const& text) {
  auto const part = file.string() + "." + writer + ".part";
  static_cast<void>(::unlink(part.c_str()));
  {
    parallel::descriptor const out(
        ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (out.get() < 0) parallel::files::failure(part, "cannot be written");
    auto const content = key.seal(file.filename().string() + '\n' + text) + '\n' + text;
    if (::write(out.get(), content.data(), content.size()) !=
            static_cast<ssize_t>(content.size()) ||
        !parallel::files::flush(out.get()))
      parallel::files::failure(part, "cannot be written");
  }
  parallel::files::rename(part, file);
}

/// The file's text, or nothing if there is no such file; throws `error` where the file cannot be
/// read.
[[nodiscard]] inline std::optional<sealed_text> read_sealed(std::filesystem::path const& file,
                                                            run_key const& key) {
  parallel::descriptor const input(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (input.get() < 0) {
    if (errno != ENOENT) parallel::files::failure(file, "cannot be read");
    return std::nullopt;
  }
  struct ::stat status {};
  if (::fstat(input.get(), &status) == 0 && !S_ISREG(status.st_mode)) return sealed_text{};
  std::string content(std::size_t{1} << 20, '\0');
  auto const size = ::read(input.get(), content.data(), content.size());
  if (size < 0) parallel::files::failure(file, "cannot be read");
  content.resize(static_cast<std::size_t>(size));
  auto const line_end = content.find('\n');
  if (line_end == std::string::npos) return sealed_text{};
  auto const text = content.substr(line_end + 1);
  if (content.substr(0, line_end) != key.seal(file.filename().string() + '\n' + text))
    return sealed_text{};
  return sealed_text{nlohmann::json::parse(text), seconds_of(status.st_mtim)};
}

}  // namespace apps
