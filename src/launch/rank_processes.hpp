// rank_processes: the processes of this machine's ranks, which are started, shown, watched and
// ended together.
//
// Each rank prints into its own log; the output of the shown rank also goes to the streams of
// this process. A rank dies with its launch, whatever ends launch, and the descendants of a rank
// die with the rank. The exception is a launch that is killed: the system then signals the direct
// children only. Signals are sent to a rank and its descendants, because a rank may be a script
// that waits for a program.
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
#include <parallel/device/host/available_memory.hpp>

namespace apps {

/// The command line, environment and log of one rank.
struct rank_command {
  int rank = 0;
  std::vector<std::string> words;  // the program's path and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
  std::filesystem::path log;
  bool is_shown = false;
};

/// The end of a rank's process.
struct rank_end {
  int rank = 0;
  int status = 0;  // as returned by waitpid
  std::filesystem::path log;
  bool is_shown = false;   // its output went to this process's streams
  std::string cause = {};  // why the system killed it, if it did

  [[nodiscard]] bool is_well() const { return status == 0; }
  /// The exit code as a shell gives it: the program's own, or 128 plus the number of the signal.
  [[nodiscard]] int code() const;
  /// "rank 3 was killed by signal 9 (Killed) on node7", with the reason where the system killed it
  /// for lack of memory.
  [[nodiscard]] std::string text(std::string const& machine) const;
};

/// Blocks the signals that rank_processes handles, so that they stay pending until one exists. A
/// launch calls it that has files to remove before it may end.
void block_handled_signals();

/// Create it before any thread: during its life SIGCHLD and the signals that ask to end (SIGTERM,
/// SIGINT, SIGHUP, SIGQUIT, SIGUSR1) are blocked, and `poll_events` returns them.
class rank_processes {
 public:
  rank_processes();
  rank_processes(rank_processes&&) = delete;
  /// Kills the ranks that still run.
  ~rank_processes();

  /// Throws `error` when the program cannot be started.
  void start(rank_command const& command);

  /// Waits for events, at most for `timeout`: shows the output of ranks and records how they end.
  /// Returns the signal that this process received, if there is one; SIGPIPE once the reader of its
  /// own output has left, as in `launch ... | head`.
  std::optional<int> poll_events(std::chrono::milliseconds timeout);

  /// Sends a signal to the ranks and their descendants.
  void send(int signal);

  [[nodiscard]] bool have_all_ended() const { return running_.empty(); }
  /// The first rank that failed.
  [[nodiscard]] std::optional<rank_end> const& failure() const { return failure_; }

  /// Ends all running ranks: it first lets them end by themselves, then sends SIGTERM, then
  /// SIGKILL. Must be called repeatedly; the times count from the first call.
  void request_end();

 private:
  struct running_rank {
    pid_t id;
    int rank;
    std::filesystem::path log;
    bool is_shown;
    std::optional<int> status = std::nullopt;  // present when it has ended
    std::optional<parallel::steady_time> signaled_at =
        {};  // when a signal ended it that was sent to its descendants, too
  };
  struct output_stream {  // an output of the shown rank
    parallel::descriptor input;
    int output;
    parallel::descriptor log;
    std::string pending = {};  // not shown yet: the reader of this process's output may be slow
    bool is_log_cut = false;   // the log lacks some of what was printed
    bool has_lost_reader = false;

    static constexpr std::size_t max_pending = std::size_t{1} << 20;
    [[nodiscard]] bool can_read() const { return input.get() >= 0 && pending.size() < max_pending; }
    /// Reads a piece into the log and into `pending`. Returns whether there was one; never blocks.
    [[nodiscard]] bool read_some();
    /// Writes as much of `pending` as the output takes without blocking.
    void show_pending();
  };

  void show();
  void reap();
  void note_end(running_rank const& rank);

  parallel::host::memory_kills const kills_before_ = parallel::host::count_memory_kills();
  sigset_t mask_before_ = {};
  parallel::descriptor signals_;
  std::vector<running_rank> running_;
  std::vector<output_stream> streams_;
  std::optional<rank_end> failure_;
  std::optional<parallel::steady_time> end_requested_;
  int last_sent_ = 0;  // a signal
  bool has_lost_reader_ = false, is_reader_loss_told_ = false;
  int end_signal_ = 0;
};

/// The last lines of a file, for a message; empty when it has none.
[[nodiscard]] std::string tail_of(std::filesystem::path const& file, int lines = 20);

/// The text of the file's last line that begins with "error: ", cut where it is long; empty when
/// there is no such line.
[[nodiscard]] std::string last_error_in(std::filesystem::path const& file);

}  // namespace apps
