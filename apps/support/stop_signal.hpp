// stop_signal: what asks a run to end soon (SIGTERM, SIGINT, SIGHUP, SIGUSR1) is heard and kept,
// so that the run saves first. The same one again ends the process at once. So does, but for that,
// a SIGPIPE of its output: whoever reads what it prints has left, as in `pretrain … 2>&1 | head
// -1`.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>

namespace apps {

/// SIGUSR1 is what SLURM sends with --signal, and what mpirun passes on to all ranks.
class stop_signals {
 public:
  /// From now on they are kept, but for those that were ignored, as SIGHUP is by nohup. One in a
  /// process.
  stop_signals() {
    struct ::sigaction action {};
    for (std::size_t i = 0; i < signals.size(); ++i) {
      bool const of_pipe = signals[i] == SIGPIPE;
      action.sa_handler = of_pipe ? &note_pipe : &note;
      action.sa_flags = SA_RESTART | (of_pipe ? 0 : static_cast<int>(SA_RESETHAND));
      static_cast<void>(::sigaction(signals[i], nullptr, &before_[i]));
      if (before_[i].sa_handler != SIG_IGN)
        static_cast<void>(::sigaction(signals[i], &action, nullptr));
    }
  }
  ~stop_signals() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      static_cast<void>(::sigaction(signals[i], &before_[i], nullptr));
    // what is still to be said is lost, and ends nothing
    if (received_ == SIGPIPE) static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  }
  stop_signals(stop_signals const&) = delete;
  stop_signals& operator=(stop_signals const&) = delete;

  /// Whether one has come. Any thread may ask.
  [[nodiscard]] static bool received() { return received_ != 0; }

 private:
  static void note(int number) { received_ = number; }
  // Not of a connection to another rank, which is no reason to end.
  static void note_pipe(int number) {
    int const saved_errno = errno;
    for (int const output : {STDOUT_FILENO, STDERR_FILENO})
      if (pollfd asked{output, 0, 0}; ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLERR) != 0)
        received_ = number;
    errno = saved_errno;
  }

  static constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};
  std::array<struct ::sigaction, signals.size()> before_{};
  inline static std::atomic<int> received_ = 0;  // a handler reaches nothing else
};

}  // namespace apps
