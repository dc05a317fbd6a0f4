// rank_processes: the ranks of this machine: started, shown, watched and ended together.
//
// What a rank prints goes to a file of its own; what the shown one prints also to this process's
// streams. A rank dies with its launch, whatever ends that, and what a rank has started dies with
// the rank; only when launch itself is killed does it not, since the system tells a process's own
// children alone. Signals are for a rank and for what it has started: it may be a script that waits
// for a program.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/core/clock.hpp>
#include <parallel/core/file.hpp>
#include <parallel/device/host/memory_kills.hpp>

namespace apps {

/// What a rank is started as.
struct rank_command {
  int rank = 0;
  std::vector<std::string> words;  // the program's path and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // besides this process's
  std::filesystem::path log;
  bool is_shown = false;
};

/// How a rank ended.
struct rank_end {
  int rank = 0;
  int status = 0;  // as waitpid gives it
  std::filesystem::path log;
  bool is_shown = false;  // what it printed has been seen
  std::string why = {};   // the system killed it, if it did

  [[nodiscard]] bool is_well() const { return status == 0; }
  /// What a shell calls it: the program's own number, or 128 and the signal's.
  [[nodiscard]] int code() const;
  /// "rank 3 was killed by signal 9 (Killed) on node7", and why, if the system did it for want of
  /// memory.
  [[nodiscard]] std::string text(std::string const& machine) const;
};

/// Holds back, from now on, what rank_processes hears of: until there is one it waits. For a launch
/// that has something to remove before it may end.
void hold_signals_back();

/// Make it before any thread: while it lives, SIGCHLD and the signals that ask to end (SIGTERM,
/// SIGINT, SIGHUP, SIGQUIT, SIGUSR1) are held back, and `look` gives them.
class rank_processes {
 public:
  rank_processes();
  rank_processes(rank_processes const&) = delete;
  rank_processes& operator=(rank_processes const&) = delete;
  /// Ends at once what still runs.
  ~rank_processes();

  /// Throws `error` when the program cannot be started.
  void start(rank_command const& command);

  /// Sees to what has happened, for so long at most: shows what ranks print, notes how they end.
  /// Gives the signal that this process was sent, if it was.
  std::optional<int> look(std::chrono::milliseconds most);

  /// To the ranks, and to what they have started.
  void send(int signal);

  [[nodiscard]] bool all_ended() const { return running_.empty(); }
  /// The first that ended otherwise than well.
  [[nodiscard]] std::optional<rank_end> const& failure() const { return failure_; }

  /// Ends all that run: SIGTERM, unless they end by themselves within a moment, then SIGKILL. Call
  /// it again and again while it is so; what counts is when it was called first.
  void end_soon();

 private:
  struct running {
    pid_t id;
    int rank;
    std::filesystem::path log;
    bool is_shown;
    std::optional<int> status = std::nullopt;             // it has ended
    std::optional<parallel::steady_time> cut_short = {};  // by a signal for what it started, too
  };
  struct stream {  // of the shown rank
    parallel::descriptor from;
    int to;
    parallel::descriptor log;
    std::string waiting = {};  // for whoever reads what is shown, and may stand still
    bool is_log_cut = false;   // it lacks some of what was printed

    static constexpr std::size_t most_waiting = std::size_t{1} << 20;
    [[nodiscard]] bool takes_more() const {
      return from.get() >= 0 && waiting.size() < most_waiting;
    }
    /// Reads a piece into the log, and to be shown. Returns whether there was one; never blocks.
    [[nodiscard]] bool read_some();
    /// Shows as much of what waits as is taken at once.
    void pass_on();
  };

  void show();
  void reap();
  void note_end(running const& one);

  parallel::host::memory_kills const kills_before_ = parallel::host::count_memory_kills();
  sigset_t mask_before_ = {};
  parallel::descriptor signals_;
  std::vector<running> running_;
  std::vector<stream> streams_;
  std::optional<rank_end> failure_;
  std::optional<parallel::steady_time> ending_since_;
  int last_sent_ = 0;  // a signal
  int ending_by_ = 0;
};

/// The last lines of a file, for a message; empty when it has none.
[[nodiscard]] std::string end_of(std::filesystem::path const& file, int lines = 20);

/// What the last line there that begins with "error: " says, cut where it is long; empty when none
/// does.
[[nodiscard]] std::string last_error_in(std::filesystem::path const& file);

}  // namespace apps
