// helper_process: work that may never end, need any memory or overflow the stack, in a process of
// its own: it answers one question after another, and what goes wrong there is an error here.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt {

struct helper_limits {
  std::chrono::milliseconds time{10'000};            ///< of an answer
  std::size_t memory = std::size_t{512} << 20;       ///< more than when it was made
  std::size_t answer_bytes = std::size_t{64} << 20;  ///< of an answer
};

/// Linux. The process is a copy of this one, made by fork: its work must not need other threads of
/// it. It ends with this object, and with the process that made it.
class helper_process {
 public:
  /// answer(question), called in the other process; what it throws is thrown here.
  explicit helper_process(std::function<std::string(std::string const&)> const& answer,
                          helper_limits limits = {})
      : limits_(limits) {
    std::array<int, 2> ends{};
    parallel::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
                      "no helper process can be made: there is no socket for it");
    parent_ = ::getpid();
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[0]);
      serve(ends[1], answer);
    }
    ::close(ends[1]);
    socket_ = ends[0];
    ::timeval const patience{limits_.time.count() / 1000, limits_.time.count() % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (child_ < 0) ::close(socket_);
    parallel::require(child_ > 0, "no helper process can be made: the system refuses one");
  }
  ~helper_process() { end(); }
  helper_process(helper_process const&) = delete;
  helper_process& operator=(helper_process const&) = delete;

  /// The answer. Throws what the other process threw; when it took too long, or ended (by its
  /// stack or a signal, which is said), and ever after. May be called by several threads.
  [[nodiscard]] std::string ask(std::string const& question) {
    std::scoped_lock const one_at_a_time(lock_);
    parallel::require(child_ > 0, "it was given up");
    std::string out;
    auto const begin = clock::now();
    bool answered = false;
    try {
      answered = send(socket_, 1, question) && receive(out, limits_.time);
    } catch (parallel::error const&) {  // too long
      end();
      throw;
    }
    if (!answered) parallel::fail(end_and_why(clock::now() - begin >= limits_.time));
    bool const failed = out.front() == 0;
    out.erase(0, 1);
    if (failed) parallel::fail(out);
    return out;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// The other process.
  [[noreturn]] void serve(int socket,
                          std::function<std::string(std::string const&)> const& answer) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent_) ::_exit(0);
    limit(RLIMIT_CORE, 0);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    limit(RLIMIT_AS, pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + limits_.memory);
    for (int const fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})  // none of whom it is a copy
      std::signal(fault, SIG_DFL);
    socket_ = socket;
    for (std::string question; receive(question, std::chrono::hours(24 * 365));) {
      question.erase(0, 1);
      std::string said;
      char well = 1;
      try {
        said = answer(question);
      } catch (std::bad_alloc const&) {
        well = 0;
        said = "it needs too much memory";
      } catch (std::exception const& problem) {
        well = 0;
        said = problem.what();
      }
      if (!send(socket, well, said)) break;
    }
    ::_exit(0);
  }

  static void limit(int what, std::size_t value) {
    ::rlimit const both{value, value};
    static_cast<void>(::setrlimit(static_cast<__rlimit_resource>(what), &both));
  }

  [[nodiscard]] static bool write_all(int socket, void const* data, std::size_t bytes) {
    auto const* at = static_cast<char const*>(data);
    while (bytes > 0) {
      auto const sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  [[nodiscard]] static bool send(int socket, char kind, std::string const& text) {
    std::uint64_t const size = text.size();
    return write_all(socket, &size, sizeof size) && write_all(socket, &kind, 1) &&
           write_all(socket, text.data(), text.size());
  }

  [[nodiscard]] bool read_all(void* data, std::size_t bytes, clock::time_point until) const {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
      ::pollfd waiting{socket_, POLLIN, 0};
      auto const wait = std::min<std::int64_t>(left.count(), 1'000'000);
      if (left.count() <= 0) return false;
      auto const ready = ::poll(&waiting, 1, static_cast<int>(wait));
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      auto const got = ready < 0 ? -1 : ::recv(socket_, at, bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  /// A kind and a text.
  [[nodiscard]] bool receive(std::string& out, std::chrono::milliseconds within) const {
    auto const until = clock::now() + within;
    std::uint64_t size = 0;
    if (!read_all(&size, sizeof size, until)) return false;
    parallel::require(size <= limits_.answer_bytes, "its text has ", size, " bytes, more than ",
                      limits_.answer_bytes);
    out.resize(static_cast<std::size_t>(size) + 1);
    return read_all(out.data(), out.size(), until);
  }

  /// How the other process ended; 0: it is this object's copy in a child, whose it is not.
  int end() {
    if (child_ <= 0 || ::getpid() != parent_) return 0;
    int status = 0;
    ::kill(child_, SIGKILL);  // one that has ended already keeps its status
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    ::close(socket_);
    child_ = -1;
    return status;
  }
  [[nodiscard]] std::string end_and_why(bool late) {
    auto const status = end();
    auto const signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (late) return parallel::concat("it does not end within ", limits_.time.count(), " ms");
    if (signal == SIGSEGV || signal == SIGBUS)
      return "it overflows the stack: it recurses, or is nested, too deep";
    if (signal == SIGFPE) return "it divides by zero";
    if (signal == 0) return "its process ended";
    return parallel::concat("its process was ended by signal ", signal, " (", ::strsignal(signal),
                            ")");
  }

  helper_limits limits_;
  std::mutex lock_;
  int socket_ = -1;
  ::pid_t parent_ = -1;
  ::pid_t child_ = -1;
};

}  // namespace mpt
