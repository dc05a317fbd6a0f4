#include <optional>

#include <parallel/core/error.hpp>

#include <launch/processes.hpp>

std::optional<apps::process> apps::by_mpirun::started() { return std::nullopt; }
void apps::by_mpirun::run(launch_options const& /*options*/, process const& /*self*/,
                          rank_program const& /*program*/) {
  parallel::fail("this is built without MPI");
}
