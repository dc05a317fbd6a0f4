#include <parallel/comm/checked.hpp>
#include <parallel/comm/gloo/communicator.hpp>
#include <parallel/comm/nccl/launched.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/texts.hpp>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "support/cores.hpp"
#include "support/exit_code.hpp"
#include "support/flight.hpp"
#include "support/launch_environment.hpp"
#include "support/process.hpp"
#include "support/processes.hpp"
#include "support/run_key.hpp"

namespace {

std::string from_environment(char const* name) {
  char const* const text = std::getenv(name);
  parallel::require(text != nullptr, "launch started this process without ", name,
                    "; start it with this build's launch");
  return text;
}

}  // namespace

std::optional<apps::process> apps::by_launch::started() {
  if (std::getenv(launch_environment::rendezvous) == nullptr) return std::nullopt;
  auto const self = parallel::nccl::launched_by([](char const* name) { return std::getenv(name); });
  parallel::require(self.has_value(), launch_environment::rendezvous,
                    " is set, but RANK and WORLD_SIZE are not; start this by launch, or unset it");
  return process{.rank = self->rank,
                 .ranks = self->ranks,
                 .local_rank = self->local_rank,
                 .local_ranks = std::atoi(from_environment("LOCAL_WORLD_SIZE").c_str())};
}

void apps::by_launch::run(launch_options const& options, process const& self,
                          rank_program const& program) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  std::filesystem::path const folder = from_environment(launch_environment::rendezvous);
  try {
    parallel::any_communicator any(
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
    try {
      auto const cores = available_cores();
      parallel::host::stream exchanges;
      auto const all = parallel::gather_texts(any, exchanges, identity_of(cores));
      program(any, {cores_among_equals(cores, all, any.rank()), self.local_rank,
                    [&] { keep_calls(options, self.rank, self.ranks, *recorder); }});
      recorder->ring().remove_file();
    } catch (refusal const&) {
      throw;
    } catch (std::exception const& problem) {
      any.abort(problem.what());
      throw;
    }
  } catch (refusal const& problem) {
    if (self.rank == 0) print_error(problem.what());
    recorder->ring().remove_file();
    throw;
  } catch (std::exception const& problem) {
    mpt::console::say("error: rank {}: {}\n", self.rank, problem.what());
    auto const file = self.ranks > 1 && keeps_folder(problem)
                          ? write_last_calls(options, self.rank, *recorder)
                          : "";
    if (!file.empty()) mpt::console::say("the last calls of rank {} are in {}\n", self.rank, file);
    throw reported(code_of_current_exception());
  }
}
