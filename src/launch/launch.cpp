#include <launch/launch.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <parallel/core/error.hpp>

#include <devices/cores.hpp>
#include <launch/launch_environment.hpp>
#include <launch/launch_threads.hpp>
#include <launch/processes.hpp>

namespace {

/// This process, where it is one of several that find each other.
std::optional<apps::process> own_process() {
  if (auto const self = apps::by_launch::started()) return self;
  return apps::by_mpirun::started();
}

}  // namespace

std::string apps::launcher_name() {
  auto const self = by_launch::started();
  return !self ? "mpirun" : self->launcher.empty() ? "launch" : self->launcher;
}
std::optional<int> apps::processes_started() {
  auto const self = own_process();
  return self ? std::optional(self->ranks) : std::nullopt;
}
std::string apps::series_of_starts() {
  // the folder's name is that of the run and, after the last hyphen, of the start
  char const* const folder = std::getenv(launch_environment::rendezvous);
  auto const self = by_launch::started();
  if (folder == nullptr || !self || !self->launcher.empty()) return {};
  auto const name = std::filesystem::path(folder).filename().string();
  return name.substr(0, name.rfind('-'));
}
bool apps::is_primary() { return own_process().value_or(process()).rank == 0; }
bool apps::is_primary_here() noexcept {
  try {
    return own_process().value_or(process()).local_rank == 0;
  } catch (...) {
    return true;  // numbers that cannot be: whoever asks for them next says so
  }
}
std::string apps::node_name() {
  char const* const number = by_launch::started() ? std::getenv("GROUP_RANK") : nullptr;
  return number == nullptr ? parallel::machine_name() : parallel::machine_name() + "/" + number;
}
int apps::ranks_on_this_machine(int ranks) {
  auto const self = own_process();
  return self ? self->local_ranks : ranks;
}

void apps::launch(
    launch_options const& options,
    std::function<void(parallel::any_communicator&, placement const&)> const& program) {
  auto const self = own_process();
  if (!self) return launch_threads(options, program);
  parallel::require(!options.ranks || *options.ranks == self->ranks, options.ranks.value_or(0),
                    " ranks are asked for, but ", launcher_name(), " started ", self->ranks,
                    "; say how many there only");
  if (by_launch::started()) return by_launch::run(options, *self, program);
  by_mpirun::run(options, *self, program);
}
