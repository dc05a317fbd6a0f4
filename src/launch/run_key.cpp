#include <launch/run_key.hpp>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <mpt/digest.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/random_bytes.hpp>

namespace apps {

namespace {

constexpr std::size_t key_digits = 64;

std::string random_digits(std::size_t digits) {
  auto const bytes = parallel::random_bytes(digits / 2);
  return parallel::hexadecimal(std::as_bytes(std::span(bytes)));
}

/// Gives the file `part` the name `name` unless a file of that name exists, like O_EXCL, but so
/// that no process reads a partly written file: by a second link or, on a file system without
/// links, by a rename that replaces nothing, else by a copy. Sets errno if it returns false.
bool publish(std::string const& part, std::filesystem::path const& name, std::string const& text) {
  if (::link(part.c_str(), name.c_str()) == 0 || errno == EEXIST) return true;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0 ||
      errno == EEXIST)
    return true;
  parallel::descriptor const out(
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (out.get() < 0) return errno == EEXIST;
  return ::write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// The first bytes of an open file, once it has as many.
std::string read_key(int file, std::chrono::milliseconds wait) {
  std::string text(key_digits, '\0');
  for (auto const end = std::chrono::steady_clock::now() + wait;;) {
    if (::pread(file, text.data(), text.size(), 0) == static_cast<ssize_t>(key_digits)) return text;
    if (std::chrono::steady_clock::now() >= end) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

run_key run_key::read(std::filesystem::path const& file, std::chrono::milliseconds wait) {
  parallel::descriptor const in(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (in.get() < 0) parallel::files::failure(file, "this run's key cannot be read");
  struct ::stat status {};
  parallel::require(::fstat(in.get(), &status) == 0 && S_ISREG(status.st_mode) &&
                        status.st_uid == ::geteuid() && (status.st_mode & 077) == 0,
                    file.native(),
                    ": a run's key is a file that only its owner can read, and the owner who "
                    "starts the run; chmod 600 it, or remove it and a new one is made");
  auto text = read_key(in.get(), wait);
  parallel::require(!text.empty(), file.native(), ": a run's key has ", key_digits,
                    " characters at least");
  return run_key(std::move(text));
}

run_key run_key::read_or_make(std::filesystem::path const& file) {
  if (!parallel::files::exists(file)) {
    auto const part = file.string() + '.' + random_name();
    auto const secret = random_digits(key_digits) + '\n';
    {
      parallel::descriptor const out(
          ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (out.get() < 0) parallel::files::failure(part, "this run's key cannot be written");
      errno = ENOSPC;  // the reason of a partial write, for which the system sets no errno
      if (::write(out.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
        int const problem = errno;
        static_cast<void>(::unlink(part.c_str()));
        parallel::files::failure(part, "this run's key cannot be written", problem);
      }
    }
    bool const is_published = publish(part, file, secret);
    int const problem = errno;
    static_cast<void>(::unlink(part.c_str()));
    if (!is_published) parallel::files::failure(file, "this run's key cannot be written", problem);
  }
  return read(file);
}

std::string run_key::seal(std::string_view text) const {
  auto const code = mpt::hmac_sha256(secret_, text);
  return parallel::hexadecimal(std::as_bytes(std::span(code)));
}

std::string random_name() { return random_digits(16); }

}  // namespace apps
