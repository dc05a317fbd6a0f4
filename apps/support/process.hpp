// What a program's process is given and leaves behind: its three standard streams, and its limits.
#pragma once

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <system_error>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

namespace apps {

/// Makes a closed standard stream safe: no file that is opened later gets its number. Writing to a
/// standard output that was closed fails, to a standard error it is lost. A limit on the size of
/// files (ulimit -f) becomes an error of the write that meets it. As many files may be open as the
/// system lets this process have.
inline void settle_process() {
  if (::rlimit files{}; ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
  }
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // the lowest number that is free is this one
    static_cast<void>(::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
}

/// Threads that wait for others of theirs let go of their core after some 10 µs, unless the user's
/// environment says how long: where other programs want the cores too, they would keep the very
/// threads from them that they wait for. libgomp reads that before a program begins, so the program
/// is begun again; where that cannot be it goes on as it is.
inline void settle_threads(char** arguments) {
  constexpr auto* spins = "GOMP_SPINCOUNT";
  if (std::getenv(spins) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (::getauxval(AT_BASE) == 0) return;  // begun by the dynamic linker, which the file is then
  std::error_code unknown;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown && ::setenv(spins, "10000", 1) == 0)
    static_cast<void>(::execv(program.c_str(), arguments));  // by its name, as tools list it
}

/// Seconds since this process began, by the kernel, to a hundredth; 0: it does not tell.
[[nodiscard]] inline double program_seconds() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int field = 3; field <= 22; ++field) rest >> word;  // the 22nd: since the machine's start
  ::timespec boot_time{};
  if (word.empty() || ::clock_gettime(CLOCK_BOOTTIME, &boot_time) != 0) return 0;
  return static_cast<double>(boot_time.tv_sec) + 1e-9 * static_cast<double>(boot_time.tv_nsec) -
         std::strtod(word.c_str(), nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Throws when what was printed did not all reach its reader: a full disk, a closed stream.
inline void require_printed() {
  errno = 0;
  bool const flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return;
  int const code = errno;
  auto const text = parallel::concat("standard output: what was printed is not complete",
                                     code == 0 ? "" : ": " + std::generic_category().message(code),
                                     "; send it where there is room");
  if (parallel::is_storage_error_code(code)) parallel::fail<parallel::storage_error>(text);
  parallel::fail(text);
}

/// What the exception says; where the standard library threw it for want of something, of what.
[[nodiscard]] inline std::string sentence_of(std::exception const& problem) {
  if (dynamic_cast<std::bad_alloc const*>(&problem) != nullptr)
    return "no memory is left for this process: take less (a smaller batch, fewer threads), or "
           "raise the limit on its address space (ulimit -v)";
  auto const* const refused = dynamic_cast<std::system_error const*>(&problem);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return "no thread can be started: use fewer, or raise the limits on processes and threads "
           "(ulimit -u) and on address space (ulimit -v)";
  return problem.what();
}

/// Prints an error as programs do; lost without a word where standard error takes nothing.
inline void print_error(char const* text) noexcept {
  static_cast<void>(std::fflush(stdout));
  static_cast<void>(std::fputs("error: ", stderr));
  static_cast<void>(std::fputs(text, stderr));
  static_cast<void>(std::fputc('\n', stderr));
}

/// What belongs to an error and is said before it.
inline void print_note(std::string const& text) noexcept {
  static_cast<void>(std::fflush(stdout));
  static_cast<void>(std::fprintf(stderr, "note: %s\n", text.c_str()));
}

}  // namespace apps
