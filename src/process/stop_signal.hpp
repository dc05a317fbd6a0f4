// stop_signal: records a signal that asks a run to end soon (SIGTERM, SIGINT, SIGHUP, SIGUSR1), so
// that the run saves a checkpoint first. The same signal sent again ends the process immediately.
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

namespace apps {

/// Among the signals is SIGUSR1, because SLURM's --signal can send it and mpirun forwards it to all
/// ranks.
class stop_signals {
 public:
  /// Begins to record signals, except those that were ignored, as nohup ignores SIGHUP. A process
  /// may have one such object.
  stop_signals() {
    struct ::sigaction action {};
    for (std::size_t i = 0; i < signals.size(); ++i) {
      bool const is_pipe = signals[i] == SIGPIPE;
      bool const ends_when_repeated = !is_pipe && signals[i] != SIGXCPU;
      action.sa_handler = is_pipe ? &note_pipe : &note;
      action.sa_flags = SA_RESTART | (ends_when_repeated ? static_cast<int>(SA_RESETHAND) : 0);
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
  static void note(int number) { received_ = number; }
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
  inline static std::atomic<int> received_ = 0;  // static, because a handler has no object
};

}  // namespace apps
