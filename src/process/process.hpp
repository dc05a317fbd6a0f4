// Settings of a program's process: its three standard streams, limits, threads and error messages.
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
#include <string_view>
#include <system_error>

#include <mpt/console/say.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>

#include <process/exit_code.hpp>

namespace apps {

/// Where memory is limited (ulimit -v, ulimit -d), makes a message and the code of a lack of memory
/// out of a fault: oneDNN's compiler of kernels, for one, writes into memory that it did not get.
inline void explain_faults() {
  auto const is_limited = [](auto resource) {
    ::rlimit limit{};
    return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  };
  if (!is_limited(RLIMIT_AS) && !is_limited(RLIMIT_DATA)) return;
  struct ::sigaction action {};
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  action.sa_handler = [](int) {
    constexpr std::string_view text =
        "error: this process wrote where it has no memory, most likely as none is left: take less "
        "(a smaller batch, fewer threads), or raise the limits on memory (ulimit -v, ulimit -d)\n";
    static_cast<void>(::write(STDERR_FILENO, text.data(), text.size()));
    ::_exit(static_cast<int>(exit_code::out_of_memory));
  };
  for (int const fault : {SIGSEGV, SIGBUS}) static_cast<void>(::sigaction(fault, &action, nullptr));
}

/// Makes closed standard streams safe, so that no file that is opened later gets their numbers:
/// writing to a closed standard output fails, and writing to a closed standard error is lost. A
/// limit on the size of files (ulimit -f) becomes an error of the write that exceeds it. The limit
/// on open files becomes the largest that the system allows.
inline void settle_process() {
  if (::rlimit files{}; ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
  }
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  explain_faults();
  for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // the lowest number that is free is this one
    static_cast<void>(::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
}

/// Makes OpenMP threads that wait for other threads release their core after about 10 µs, unless
/// the user's environment sets another time. On a machine with other load, waiting threads would
/// otherwise keep the threads that they wait for from running. libgomp reads the setting before a
/// program begins, so this function starts the program anew; if that fails, it returns and the
/// program goes on without the setting.
inline void settle_threads(char** arguments) {
  constexpr auto* spins = "GOMP_SPINCOUNT";
  if (std::getenv(spins) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (::getauxval(AT_BASE) == 0) return;  // started by the dynamic linker: /proc/self/exe is that
  std::error_code unknown;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown && ::setenv(spins, "10000", 1) == 0)
    static_cast<void>(::execv(program.c_str(), arguments));  // by its name, as tools list it
}

/// Seconds since this process began, by the kernel's clock, to a hundredth; 0: not known.
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

/// Throws when the printed text was not completely written, as on a full disk or a closed stream.
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

/// The exception's message, or, for lack of memory or threads, a message that says what to do.
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

/// Prints an error as all programs do. The text is lost if standard error cannot be written.
inline void print_error(char const* text) noexcept {
  static_cast<void>(std::fflush(stdout));
  try {
    mpt::console::say("error: {}\n", text);
  } catch (std::exception const&) {  // no memory is left
    static_cast<void>(std::fprintf(stderr, "error: %s\n", text));
  }
}

/// Prints a note that belongs to an error that is printed after it.
inline void print_note(std::string const& text) noexcept {
  static_cast<void>(std::fflush(stdout));
  try {
    mpt::console::say("note: {}\n", text);
  } catch (std::exception const&) {  // no memory is left
    static_cast<void>(std::fprintf(stderr, "note: %s\n", text.c_str()));
  }
}

}  // namespace apps
