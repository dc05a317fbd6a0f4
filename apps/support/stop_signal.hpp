// stop_signal: what asks a run to end soon (SIGTERM, SIGINT, SIGHUP, SIGUSR1) is heard and kept,
// so that the run saves first. The same one again ends the process at once.
#pragma once

#include <array>
#include <atomic>
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
    action.sa_handler = [](int number) { received_ = number; };
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      static_cast<void>(::sigaction(signals[i], nullptr, &before_[i]));
      if (before_[i].sa_handler != SIG_IGN)
        static_cast<void>(::sigaction(signals[i], &action, nullptr));
    }
  }
  ~stop_signals() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      static_cast<void>(::sigaction(signals[i], &before_[i], nullptr));
  }
  stop_signals(stop_signals const&) = delete;
  stop_signals& operator=(stop_signals const&) = delete;

  /// Whether one has come. Any thread may ask.
  [[nodiscard]] static bool received() { return received_ != 0; }

 private:
  static constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  std::array<struct ::sigaction, signals.size()> before_{};
  inline static std::atomic<int> received_ = 0;  // a handler reaches nothing else
};

}  // namespace apps
