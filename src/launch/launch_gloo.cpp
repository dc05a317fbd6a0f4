#include <parallel/comm/checked.hpp>
#include <parallel/comm/gloo/communicator.hpp>
#include <parallel/comm/nccl/launched.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/file.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <devices/cores.hpp>
#include <launch/cluster.hpp>
#include <launch/flight.hpp>
#include <launch/interface.hpp>
#include <launch/launch_environment.hpp>
#include <launch/nodes.hpp>
#include <launch/processes.hpp>
#include <launch/run_key.hpp>
#include <launch/watched_neighbour.hpp>
#include <process/exit_code.hpp>
#include <process/process.hpp>

namespace {

std::string from_environment(char const* name) {
  char const* const text = std::getenv(name);
  parallel::require(text != nullptr, "launch started this process without ", name,
                    "; start it with this build's launch");
  return text;
}

/// The text of a variable, or `otherwise`.
std::string from_environment_or(char const* name, std::string otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? std::move(otherwise) : text;
}

/// Runs the program as the rank that the environment says, as `launch` does.
void run_rank(apps::launch_options const& options, apps::process const& self,
              apps::rank_program const& program) {
  using namespace apps;
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  std::filesystem::path const folder = from_environment(launch_environment::rendezvous);
  try {
    parallel::any_communicator world(
        parallel::recorded(parallel::checked(parallel::gloo::communicator(
                               {.rank = self.rank,
                                .ranks = self.ranks,
                                .rendezvous = folder,
                                .interface = from_environment(launch_environment::interface),
                                .seal =
                                    [key = run_key::read(from_environment(launch_environment::key)),
                                     name = folder.filename().string()](std::string_view text) {
                                      return key.seal(parallel::concat(name, '\n', text));
                                    },
                                .deadline = options.deadline})),
                           recorder));
    watched_neighbour watched(world);
    try {
      auto const cores = available_cores();
      parallel::host::stream exchanges;
      auto const identities = parallel::gather_texts(world, exchanges, identity_of(cores));
      program(world, {cores_shared_by_identity(cores, identities, world.rank()), self.local_rank,
                      [&] {
                        record_calls_in_file(options, self.rank, self.ranks, *recorder);
                        watched.begin(options, recorder);
                      },
                      recorder});
      watched.stop();
      recorder->ring().remove_file();
    } catch (refusal const&) {
      throw;
    } catch (std::exception const& problem) {
      watched.stop();
      world.abort(sentence_of(problem));
      throw;
    }
  } catch (refusal const& problem) {
    if (self.rank == 0) print_error(problem.what());
    recorder->ring().remove_file();
    throw;
  } catch (std::exception const& problem) {
    mpt::console::say("error: rank {}: {}\n", self.rank, sentence_of(problem));
    auto const file = self.ranks > 1 && keeps_folder(problem)
                          ? write_last_calls(options, self.rank, *recorder)
                          : "";
    if (!file.empty()) mpt::console::say("the last calls of rank {} are in {}\n", self.rank, file);
    auto const code = code_of_current_exception();
    // The rank that knows the cause must end first, so that the launcher reports its code and
    // message. Before it ends, it tells the other ranks, which takes up to 2 s for a rank that
    // takes no messages, such as the missing one itself (gloo's world, at its end), and writes its
    // calls to a file. All other ranks therefore wait longer than that. To leave out missing ranks
    // is no solution: two may be missing, of which the rank knows only one.
    if (code == exit_code::another_rank) std::this_thread::sleep_for(std::chrono::seconds(5));
    throw reported(code);
  }
}

}  // namespace

std::optional<apps::process> apps::by_launch::started() {
  if (std::getenv(launch_environment::rendezvous) == nullptr)
    return process_of_a_cluster([](char const* name) { return std::getenv(name); });
  auto const self =
      parallel::nccl::read_launched_rank([](char const* name) { return std::getenv(name); });
  parallel::require(self.has_value(), launch_environment::rendezvous,
                    " is set, but RANK and WORLD_SIZE are not; start this by launch, or unset it");
  return process{.rank = self->rank,
                 .ranks = self->ranks,
                 .local_rank = self->local_rank,
                 .local_ranks = std::atoi(from_environment("LOCAL_WORLD_SIZE").c_str())};
}

void apps::by_launch::run(launch_options const& options, process const& self,
                          rank_program const& program) {
  if (std::getenv(launch_environment::rendezvous) != nullptr)
    return run_rank(options, self, program);
  // torchrun or srun started this process: every process is a node of one rank, and the nodes meet
  std::filesystem::path folder = from_environment_or(launch_environment::meeting, "");
  if (folder.empty() && !options.flight_folder.empty()) folder = options.flight_folder / ".meeting";
  parallel::require(!folder.empty(), self.ranks, " ranks were started by ", self.launcher,
                    ", and need a folder that all see to find each other: set save_folder, or ",
                    launch_environment::meeting);
  parallel::files::make_folders(folder);
  folder = std::filesystem::absolute(folder);
  auto const key_file = folder / "key";
  auto const key = run_key::read_or_make(key_file);
  node_meeting meeting(folder, key,
                       {.node = self.rank,
                        .nodes = self.ranks,
                        .ranks = 1,
                        .min_nodes = self.ranks,
                        .host = parallel::machine_name()},
                       std::chrono::duration_cast<std::chrono::seconds>(options.deadline.get()));
  auto const interface = from_environment_or(
      launch_environment::interface, self.local_ranks == self.ranks ? "lo" : usual_interface());
  auto const set = [](char const* name, std::string const& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set(launch_environment::rendezvous, meeting.meet(0).folder.string());
  set(launch_environment::key, key_file.string());
  set(launch_environment::interface, interface);
  set("RANK", std::to_string(self.rank));
  set("WORLD_SIZE", std::to_string(self.ranks));
  set("LOCAL_RANK", std::to_string(self.local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(self.local_ranks));
  run_rank(options, self, program);
  // the ranks' last collective has ended, so no rank uses the folder any more
  if (self.rank != 0) return;
  static_cast<void>(::unlink(key_file.c_str()));
  meeting.clean();
  static_cast<void>(::rmdir(folder.c_str()));
}
