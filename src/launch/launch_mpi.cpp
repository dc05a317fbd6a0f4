#include <parallel/comm/checked.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/comm/mpi/environment.hpp>
#include <parallel/comm/recorded.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <parallel/comm/texts.hpp>

#include <devices/cores.hpp>
#include <launch/flight.hpp>
#include <launch/launch.hpp>
#include <launch/processes.hpp>
#include <launch/watched_neighbour.hpp>
#include <process/exit_code.hpp>
#include <process/process.hpp>

namespace {

/// The number in a variable that a launcher sets, or `otherwise`.
int from_environment(char const* name, int otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// The cores of this rank. Launchers bind a process to one core, to a socket that several processes
/// share, or not at all; processes that may use the same cores divide them.
std::vector<int> own_cores(parallel::any_communicator& comm) {
  auto const cores = apps::available_cores();
  parallel::host::stream exchanges;
  auto const identities = parallel::gather_texts(comm, exchanges, apps::identity_of(cores));
  return apps::cores_shared_by_identity(cores, identities, comm.rank());
}

/// Ends this process, and so by mpirun all processes, when this object lives longer than `limit`.
/// It guards MPI_Init and MPI_Finalize, which wait for every rank for ever.
class time_limit {
 public:
  time_limit(std::chrono::milliseconds limit, std::string sentence)
      : thread_([this, limit, sentence = std::move(sentence)] {
          std::unique_lock lock(mutex_);
          parallel::patience left(limit);
          while (!is_over_ && !left.is_over()) changed_.wait_until(lock, left.next_check());
          if (is_over_) return;
          apps::print_error(sentence.c_str());
          std::_Exit(static_cast<int>(apps::exit_code::timed_out));
        }) {}
  time_limit(time_limit&&) = delete;
  ~time_limit() {
    {
      std::scoped_lock const lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

/// Runs the program. Returns a refusal of all ranks after MPI has ended normally; any other failure
/// ends all processes.
std::exception_ptr run_on_mpi(apps::launch_options const& options, int ranks,
                              apps::rank_program const& program) {
  auto const rank = from_environment("OMPI_COMM_WORLD_RANK", 0);
  auto const limited = [&](char const* call) {
    return parallel::concat("rank ", rank, ": not all of the ", ranks, " ranks came to ", call,
                            " within ", options.deadline.seconds(),
                            " s; those that do not say this are stalled or gone");
  };
  std::optional<time_limit> limit(std::in_place, options.deadline.get(), limited("MPI_Init"));
  parallel::mpi::environment environment;  // destroyed before `limit`, which guards MPI_Finalize
  limit.reset();
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  try {
    parallel::any_communicator any(parallel::recorded(
        parallel::checked(parallel::mpi::communicator(environment, {.deadline = options.deadline})),
        recorder));
    apps::watched_neighbour watched(any, [&](int code) { environment.end_all_ranks(code); });
    try {
      program(any, {own_cores(any), from_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0),
                    [&] {
                      apps::record_calls_in_file(options, environment.rank(), ranks, *recorder);
                      watched.begin(options, recorder);
                    },
                    recorder});
      watched.stop();
      recorder->ring().remove_file();
      limit.emplace(options.deadline.get(), limited("the end"));
    } catch (apps::refusal const&) {
      throw;
    } catch (std::exception const& problem) {
      watched.stop();
      any.abort(apps::sentence_of(problem));
      throw;
    }
  } catch (apps::refusal const& problem) {
    // printed before MPI ends: when a process has failed, mpirun kills the remaining ones
    if (environment.rank() == 0) apps::print_error(problem.what());
    recorder->ring().remove_file();
    return std::current_exception();
  } catch (std::exception const& problem) {
    mpt::console::say("error: rank {}: {}\n", environment.rank(), apps::sentence_of(problem));
    auto const file = ranks > 1 && apps::keeps_folder(problem)
                          ? apps::write_last_calls(options, environment.rank(), *recorder)
                          : "";
    if (!file.empty())
      mpt::console::say("the last calls of rank {} are in {}\n", environment.rank(), file);
    // The other ranks were told of the failure and get some time to print their last calls. The
    // rank that knows the cause must end first, so that its code becomes that of all. It may need 2
    // s to tell a rank that takes no messages (~link) and then waits for 1 s, so the others wait
    // longer.
    auto const code = apps::code_of_current_exception();
    auto const moment = code == apps::exit_code::another_rank ? 8 : 1;
    if (ranks > 1) std::this_thread::sleep_for(std::chrono::seconds(moment));
    environment.end_all_ranks(static_cast<int>(code));
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
