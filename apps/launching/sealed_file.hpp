// sealed_file: what the nodes of a run tell each other: small files in a folder that all see, whole
// at once, each with a seal of the run's key over its name and its text.
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

#include "support/run_key.hpp"

namespace apps {

[[nodiscard]] inline double seconds_of(timespec const& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What a file says, and when it was written by the clock of the folder's machine.
struct sealed_text {
  nlohmann::json text;  // null: its seal is wrong
  double written = 0;
};

/// Replaces `file`. `writer`: in the name of the part that is written before, so that two who write
/// one file do not get into each other's way.
inline void write_sealed(std::filesystem::path const& file, run_key const& key,
                         std::string const& writer, std::string const& text) {
  auto const part = file.string() + "." + writer + ".part";
  static_cast<void>(::unlink(part.c_str()));
  {
    parallel::descriptor const out(
        ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (out.get() < 0) parallel::files::failure(part, "cannot be written");
    auto const whole = key.seal(file.filename().string() + '\n' + text) + '\n' + text;
    if (::write(out.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()) ||
        !parallel::files::flush(out.get()))
      parallel::files::failure(part, "cannot be written");
  }
  parallel::files::rename(part, file);
}

/// Nothing where no such file is there; throws `error` where that cannot be known.
[[nodiscard]] inline std::optional<sealed_text> read_sealed(std::filesystem::path const& file,
                                                            run_key const& key) {
  parallel::descriptor const in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (in.get() < 0) {
    if (errno != ENOENT) parallel::files::failure(file, "cannot be read");
    return std::nullopt;
  }
  struct ::stat status {};
  std::string whole(std::size_t{1} << 20, '\0');
  auto const got = ::read(in.get(), whole.data(), whole.size());
  if (got < 0 || ::fstat(in.get(), &status) != 0) parallel::files::failure(file, "cannot be read");
  whole.resize(static_cast<std::size_t>(got));
  auto const line = whole.find('\n');
  if (line == std::string::npos) return sealed_text{};
  auto const text = whole.substr(line + 1);
  if (whole.substr(0, line) != key.seal(file.filename().string() + '\n' + text))
    return sealed_text{};
  return sealed_text{nlohmann::json::parse(text), seconds_of(status.st_mtim)};
}

}  // namespace apps
