#include <functional>

#include "support/launch_threads.hpp"

std::optional<int> apps::ranks_of_mpirun() { return std::nullopt; }
bool apps::is_primary() { return true; }
bool apps::is_primary_here() { return true; }
int apps::ranks_on_this_machine(int ranks) { return ranks; }

void apps::launch(launch_options const& options,
                  std::function<void(parallel::any_communicator&, place const&)> const& program) {
  launch_threads(options, program);
}
