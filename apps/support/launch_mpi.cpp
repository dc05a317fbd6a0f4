#include <parallel/comm/checked.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/comm/mpi/environment.hpp>
#include <parallel/comm/recorded.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include <parallel/comm/texts.hpp>

#include "support/cores.hpp"
#include "support/flight.hpp"
#include "support/launch.hpp"
#include "support/process.hpp"
#include "support/processes.hpp"

namespace {

/// What a launcher says of this process, or `otherwise`.
int from_environment(char const* name, int otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Launchers bind processes to a core, to a socket that several share, or not at all: those that
/// may use the same cores divide them.
std::vector<int> own_cores(parallel::any_communicator& comm) {
  auto const cores = apps::available_cores();
  parallel::host::stream exchanges;
  auto const all = parallel::gather_texts(comm, exchanges, apps::identity_of(cores));
  return apps::cores_among_equals(cores, all, comm.rank());
}

/// Returns what all ranks have refused, when MPI has ended as it always does; any other failure
/// ends them all.
std::exception_ptr run_on_mpi(apps::launch_options const& options, int ranks,
                              apps::rank_program const& program) {
  parallel::mpi::environment environment;
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  try {
    auto const deadline = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(options.deadline));
    parallel::any_communicator any(parallel::recorded(
        parallel::checked(parallel::mpi::communicator(environment, {.deadline = deadline})),
        recorder));
    try {
      program(any, {own_cores(any), from_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0),
                    [&] { apps::keep_calls(options, environment.rank(), ranks, *recorder); }});
      recorder->ring().remove_file();
    } catch (apps::refusal const&) {
      throw;
    } catch (std::exception const& problem) {
      any.abort(problem.what());
      throw;
    }
  } catch (apps::refusal const& problem) {
    // before MPI ends: where a process has failed, mpirun kills those that are still there
    if (environment.rank() == 0) apps::print_error(problem.what());
    recorder->ring().remove_file();
    return std::current_exception();
  } catch (std::exception const& problem) {
    mpt::console::say("error: rank {}: {}\n", environment.rank(), problem.what());
    auto const file =
        ranks > 1 ? apps::write_last_calls(options, environment.rank(), *recorder) : "";
    if (!file.empty())
      mpt::console::say("the last calls of rank {} are in {}\n", environment.rank(), file);
    // the others, who were told, have a moment to say where they were
    if (ranks > 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    environment.end_all_ranks(1);
  }
  return nullptr;
}

}  // namespace

std::optional<apps::process> apps::by_mpirun::started() {
  int const ranks = from_environment("OMPI_COMM_WORLD_SIZE", 0);
  if (ranks <= 0) return std::nullopt;
  return process{.rank = from_environment("OMPI_COMM_WORLD_RANK", 0),
                 .ranks = ranks,
                 .local_rank = from_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0),
                 .local_ranks = from_environment("OMPI_COMM_WORLD_LOCAL_SIZE", ranks)};
}

void apps::by_mpirun::run(launch_options const& options, process const& self,
                          rank_program const& program) {
  if (auto const refused = run_on_mpi(options, self.ranks, program))
    std::rethrow_exception(refused);
}
