#include "support/launch_threads.hpp"

bool apps::under_mpirun() { return false; }
bool apps::speaks() { return true; }
int apps::ranks_on_this_machine(int ranks) { return ranks; }

void apps::launch(launch_options const& options,
                  std::function<void(parallel::any_communicator&, place const&)> const& program) {
  launch_threads(options, program);
}
