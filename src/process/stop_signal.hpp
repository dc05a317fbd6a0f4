// stop_signal: records a signal that asks a run to end soon (SIGTERM, SIGINT, SIGHUP, SIGUSR1), so
// that the run saves a checkpoint first. The same signal sent again ends the process immediately.
// Both are answered at once on standard error, by what the run will do.
// Two are recorded, too, but never end the process immediately: the SIGPIPE of the run's output,
// whose reader has left as in `pretrain … 2>&1 | head -1`, and the SIGXCPU that the system sends
// every second from the soft limit on processor time (ulimit -S -t) on.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>
#include <utility>

namespace apps {

/// Among the signals is SIGUSR1, because SLURM's --signal can send it and mpirun forwards it to all
/// ranks.
class stop_signals {
 public:
  /// The lines that answer the first signal, and the one that ends the process; may be empty.
  struct answer_lines {
    std::string first, last;
  };

  /// Begins to record signals, except those that were ignored, as nohup ignores SIGHUP. A process
  /// may have one such object.
  explicit stop_signals(answer_lines lines) {
    lines_ = std::move(lines);
    struct ::sigaction action {};
    for (std::size_t i = 0; i < signals.size(); ++i) {
      action.sa_handler = signals[i] == SIGPIPE ? &note_pipe : &note;
      action.sa_flags = SA_RESTART;
      static_cast<void>(::sigaction(signals[i], nullptr, &before_[i]));
      if (before_[i].sa_handler != SIG_IGN)
        static_cast<void>(::sigaction(signals[i], &action, nullptr));
    }
  }
  ~stop_signals() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      static_cast<void>(::sigaction(signals[i], &before_[i], nullptr));
    // later output is lost without ending the process
    if (received_ == SIGPIPE) static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  }
  stop_signals(stop_signals&&) = delete;

  /// Whether a signal was received. Any thread may call this.
  [[nodiscard]] static bool received() { return received_ != 0; }

 private:
  static void note(int number) {
    int const saved_errno = errno;
    if (received_.exchange(number) == 0) write_line(lines_.first);
    auto& is_repeated = seen_[static_cast<std::size_t>(number)];
    if (is_repeated.exchange(true) && number != SIGXCPU) {
      write_line(lines_.last);
      static_cast<void>(std::signal(number, SIG_DFL));
      static_cast<void>(::raise(number));  // delivered when this handler returns
    }
    errno = saved_errno;
  }
  // A terminal that is stopped, or a full pipe, gets no line: the handler never waits.
  static void write_line(std::string const& line) {
    if (pollfd output{STDERR_FILENO, POLLOUT, 0}; ::poll(&output, 1, 0) == 1)
      static_cast<void>(::write(STDERR_FILENO, line.data(), line.size()) + 1);
  }
  // Ignores a SIGPIPE of a connection to another rank, which is no reason to end.
  static void note_pipe(int number) {
    int const saved_errno = errno;
    for (int const output : {STDOUT_FILENO, STDERR_FILENO})
      if (pollfd asked{output, 0, 0}; ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLERR) != 0)
        received_ = number;
    errno = saved_errno;
  }

  static constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGXCPU, SIGPIPE};
  std::array<struct ::sigaction, signals.size()> before_{};
  // static, because a handler has no object
  inline static std::atomic<int> received_ = 0;
  inline static std::array<std::atomic<bool>, NSIG> seen_{};
  inline static answer_lines lines_{};
};

}  // namespace apps
