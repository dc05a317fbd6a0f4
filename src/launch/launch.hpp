// Starts the ranks of a program, and is the only place that chooses the communicator.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/patience.hpp>

#include <process/exit_code.hpp>

namespace apps {

/// The cores that a rank has for itself, so that ranks of one machine do not compete for cores, and
/// its number among the ranks of the machine.
struct placement {
  std::vector<int> cores;
  int local_rank = 0;
  /// Collective: from now on this rank's calls are recorded in the flight folder, which no other
  /// run may use. Ranks that are processes also begin to watch each other (parallel::heartbeat).
  std::function<void()> record_calls_in_file = [] {};
  /// The recorder of this rank's calls, for communicators that are made later; null: none.
  std::shared_ptr<parallel::flight_recorder> recorder = {};
};

struct launch_options {
  std::optional<int> ranks;  // threads; none: as many as the launcher started, or 1
  parallel::shared_deadline deadline = std::chrono::seconds(600);  // of a rank's wait for another
  /// The folder to which a failed run writes the last calls of every rank, as does a killed run
  /// after placement::record_calls_in_file; empty: standard error.
  std::filesystem::path flight_folder = {};
};

/// An error that every rank throws for the same reason. It is printed once, without the ranks' last
/// calls.
class refusal : public parallel::error {
 public:
  explicit refusal(std::string const& text, exit_code code = exit_code::refused)
      : error(text), code_(code) {}
  /// The code with which the program ends.
  [[nodiscard]] exit_code code() const { return code_; }

 private:
  exit_code code_;
};

/// Returns f(), which must have the same outcome on every rank; an `error` of it becomes a refusal.
template <class F>
decltype(auto) on_every_rank(F&& f) {
  try {
    return f();
  } catch (parallel::error const& problem) {
    throw refusal(problem.what());
  }
}

/// Runs `program` once per rank: in this process as one of several when `launch`, torchrun or srun
/// (over gloo) or mpirun (over MPI) started it, else as threads of this process. Signature checks
/// and flight recorders are always on: when the program fails on several ranks, their last calls
/// are written to files. Rethrows the first failure; a refusal is rethrown in every process after
/// it was printed as "error: …".
void launch(launch_options const& options,
            std::function<void(parallel::any_communicator&, placement const&)> const& program);

/// The number of processes that `launch`, torchrun, srun or mpirun (or another launcher that Open
/// MPI supports) started; none: this process was started alone.
[[nodiscard]] std::optional<int> processes_started();
/// The name of the launcher that started this process, for messages.
[[nodiscard]] std::string launcher_name();

/// A text that is the same for all starts of a program by one `launch`, of which each begins after
/// the one before has ended; empty: `launch` did not start this process.
[[nodiscard]] std::string series_of_starts();

/// Whether this is the process that prints: rank 0 of several, or a process that was started alone.
[[nodiscard]] bool is_primary();

/// Whether this is the first process of its machine, or was started alone. Errors of this process
/// before the ranks start are errors of the machine's other processes, too. True if the
/// environment's numbers are impossible; that is not an error here, because main calls this
/// function before errors become messages.
[[nodiscard]] bool is_primary_here() noexcept;

/// The name of this process's node: the machine's name, and the node's number if `launch` or
/// torchrun gives one, so that several nodes on one machine have different names.
[[nodiscard]] std::string node_name();

/// The number of ranks, of `ranks` in all, that share this machine's memory and cores.
[[nodiscard]] int ranks_on_this_machine(int ranks);

}  // namespace apps
