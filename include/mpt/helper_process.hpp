// helper_process: a second process for work that may never end, take all memory or overflow the
// stack. It answers one question after another, and its failures become errors of this process.
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
#include <string>

#include <parallel/core/error.hpp>

namespace mpt {

/// What the helper may take, in time and memory.
struct helper_limits {
  std::chrono::milliseconds time{10'000};            ///< of each answer
  std::size_t memory = std::size_t{512} << 20;       ///< bytes beyond those at the process's start
  std::size_t answer_bytes = std::size_t{64} << 20;  ///< of each question and answer
};

/// For Linux. The helper is a copy of the calling process, made by fork, without the other threads:
/// its work must not need them. The helper ends with this object, and with the calling process.
class helper_process {
 public:
  /// Starts the helper, which calls answer(question) for each question; `ask` throws its
  /// exceptions.
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
    ::timeval const time_limit{limits_.time.count() / 1000, limits_.time.count() % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &time_limit, sizeof time_limit);
    if (child_ < 0) ::close(socket_);
    parallel::require(child_ > 0, "no helper process can be made: the system refuses one");
  }
  ~helper_process() { end(); }
  helper_process(helper_process&&) = delete;

  /// The helper's answer. Throws the error that `answer` threw. Throws, then and at every later
  /// call, when the helper took too long or ended; the error says by which cause. Several threads
  /// may call it.
  [[nodiscard]] std::string ask(std::string const& question) {
    std::scoped_lock const guard(lock_);
    parallel::require(child_ > 0, "it was given up");
    std::string out;
    auto const begin = clock::now();
    bool has_answer = false;
    try {
      has_answer = send(socket_, 1, question) && receive(out, limits_.time);
    } catch (parallel::error const&) {  // the answer is too long
      end();
      throw;
    }
    if (!has_answer) parallel::fail(end_and_describe(clock::now() - begin >= limits_.time));
    bool const is_error = out.front() == 0;
    out.erase(0, 1);
    if (is_error) parallel::fail(out);
    return out;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// The helper's work: answers questions until the socket closes.
  [[noreturn]] void serve(int socket,
                          std::function<std::string(std::string const&)> const& answer) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent_) ::_exit(0);
    limit(RLIMIT_CORE, 0);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    limit(RLIMIT_AS, pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + limits_.memory);
    for (int const fault :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})  // not the handlers of the calling process
      std::signal(fault, SIG_DFL);
    socket_ = socket;
    for (std::string question; receive(question, std::chrono::hours(24 * 365));) {
      question.erase(0, 1);
      std::string reply;
      char is_answer = 1;
      try {
        reply = answer(question);
      } catch (std::bad_alloc const&) {
        is_answer = 0;
        reply = "it needs too much memory";
      } catch (std::exception const& problem) {
        is_answer = 0;
        reply = problem.what();
      }
      if (!send(socket, is_answer, reply)) break;
    }
    ::_exit(0);
  }

  static void limit(int resource, std::size_t value) {
    ::rlimit const soft_and_hard{value, value};
    static_cast<void>(::setrlimit(static_cast<__rlimit_resource>(resource), &soft_and_hard));
  }

  [[nodiscard]] static bool write_all(int socket, void const* data, std::size_t bytes) {
    auto const* unsent = static_cast<char const*>(data);
    while (bytes > 0) {
      auto const sent = ::send(socket, unsent, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      unsent += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  [[nodiscard]] static bool send(int socket, char kind, std::string const& text) {
    std::uint64_t const size = text.size();
    return write_all(socket, &size, sizeof size) && write_all(socket, &kind, 1) &&
           write_all(socket, text.data(), text.size());
  }

  [[nodiscard]] bool read_all(void* data, std::size_t bytes, clock::time_point deadline) const {
    auto* unread = static_cast<char*>(data);
    while (bytes > 0) {
      auto const time_left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
      ::pollfd descriptor{socket_, POLLIN, 0};
      auto const timeout = std::min<std::int64_t>(time_left.count(), 1'000'000);
      if (time_left.count() <= 0) return false;
      auto const ready = ::poll(&descriptor, 1, static_cast<int>(timeout));
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      auto const received = ready < 0 ? -1 : ::recv(socket_, unread, bytes, 0);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) return false;
      unread += received;
      bytes -= static_cast<std::size_t>(received);
    }
    return true;
  }
  /// Receives a message: one byte for its kind, then the text. Returns false when the other end
  /// closes, or after `time`.
  [[nodiscard]] bool receive(std::string& out, std::chrono::milliseconds time) const {
    auto const deadline = clock::now() + time;
    std::uint64_t size = 0;
    if (!read_all(&size, sizeof size, deadline)) return false;
    parallel::require(size <= limits_.answer_bytes, "its text has ", size, " bytes, more than ",
                      limits_.answer_bytes);
    out.resize(static_cast<std::size_t>(size) + 1);
    return read_all(out.data(), out.size(), deadline);
  }

  /// Ends the helper and returns its wait status; 0 in a forked copy of this object, which has no
  /// helper of its own.
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
  [[nodiscard]] std::string end_and_describe(bool is_late) {
    auto const status = end();
    auto const signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (is_late) return parallel::concat("it does not end within ", limits_.time.count(), " ms");
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
