// Starting the ranks of a program: the one place where the communicator is chosen.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight_recorder.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/shared_deadline.hpp>

#include "support/exit_code.hpp"

namespace apps {

/// Where a rank runs: the cores that are its own, so that ranks of one machine do not collide, and
/// its number among them.
struct place {
  std::vector<int> cores;
  int local_rank = 0;
  /// Collective: from now on this rank's calls stand in the flight folder, which is this run's
  /// alone, and where ranks are processes each is watched by another (parallel::heartbeat).
  std::function<void()> keep_calls = [] {};
  /// Of this rank's calls, for communicators that are made later; null: there is none.
  std::shared_ptr<parallel::flight_recorder> recorder = {};
};

struct launch_options {
  std::optional<int> ranks;  // threads; none: what the launcher says, or 1
  parallel::shared_deadline deadline = std::chrono::seconds(600);  // of one rank for another
  /// Where a failed run leaves the last calls of every rank, and one that is killed too once it
  /// has said place::keep_calls; empty: on standard error.
  std::filesystem::path flight_folder = {};
};

/// What every rank refuses for the same reason: it is said once, and tells nothing of the ranks.
class refusal : public parallel::error {
 public:
  explicit refusal(std::string const& text, exit_code with = exit_code::refused)
      : error(text), code_(with) {}
  /// What the program ends with.
  [[nodiscard]] exit_code code() const { return code_; }

 private:
  exit_code code_;
};

/// f(), which does the same on every rank from what all know: an `error` is a refusal of all.
template <class F>
decltype(auto) on_every_rank(F&& f) {
  try {
    return f();
  } catch (parallel::error const& problem) {
    throw refusal(problem.what());
  }
}

/// Runs `program` once a rank: as one of several processes when started by `launch`, torchrun or
/// srun (over gloo) or mpirun (over MPI), else as threads of this process. Signature checks and
/// flight recorders are always on: when the program fails on several ranks, their last calls are
/// written down. Rethrows the first failure, in every process a refusal, which it has printed as
/// "error: …".
void launch(launch_options const& options,
            std::function<void(parallel::any_communicator&, place const&)> const& program);

/// How many processes `launch`, torchrun, srun or mpirun (or another launcher Open MPI knows) has
/// started; none:
/// this one was started alone.
[[nodiscard]] std::optional<int> processes_started();
/// Which of them, for messages.
[[nodiscard]] std::string launcher_name();

/// A text that all starts of a program by one `launch` have in common, of which one is over when
/// the next one begins; empty: not started so.
[[nodiscard]] std::string series_of_starts();

/// True on the process whose output counts: rank 0 of several, always otherwise.
[[nodiscard]] bool is_primary();

/// True on the first process of each machine, the only one otherwise: what it refuses before ranks
/// are started, the others of the machine refuse too. True, too, where the environment's numbers
/// cannot be, which is no error yet: main asks for this outside of what turns errors into messages.
[[nodiscard]] bool is_primary_here() noexcept;

/// What this process's node is called: its machine, and its number where `launch` or torchrun gives
/// one, so that several that are started on one machine are several.
[[nodiscard]] std::string node_name();

/// How many of `ranks` share this machine's memory and cores.
[[nodiscard]] int ranks_on_this_machine(int ranks);

}  // namespace apps
